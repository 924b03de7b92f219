"""Small hand-made clusters for the tests of collectives."""

import numpy as np

from sim.cluster import Cluster, LinkKind, Links, Routes
from sim.device import Device

GPU = Device(
    name="gpu",
    vendor="nvidia",
    kind="gpu",
    peak={},
    memory_bytes=1.0,
    memory_bandwidth=1.0,
    compute_units=100,
)


def hosts(k, g, *, fast=100.0, slow=10.0, inner=None, outer=None):
    """k hosts of g devices: a switch a host (rate ``fast``), and one switch that joins every device (``slow``)."""
    n = k * g
    inner = inner or LinkKind(name="inner", latency=0.0)
    outer = outer or LinkKind(name="outer", latency=0.0)
    device = np.arange(n)
    switch, top = n + device // g, np.full(n, n + k)
    src = np.concatenate([device, switch, device, top])
    dst = np.concatenate([switch, device, top, device])
    rate = np.repeat([fast, fast, slow, slow], n)
    kind = np.repeat([0, 0, 1, 1], n)
    latency = np.array([inner.latency, outer.latency])[kind]
    host = device // g

    def router(a, b):
        a, b = np.asarray(a), np.asarray(b)
        near = host[a] == host[b]
        first, last = np.where(near, a, 2 * n + a), np.where(near, n + b, 3 * n + b)
        pair = np.arange(len(a))
        return Routes(
            np.concatenate([pair, pair]), np.concatenate([first, last]), np.ones(2 * len(a))
        )

    return Cluster(
        name="hosts",
        family="hosts",
        device_kinds=(GPU,),
        device_kind=np.zeros(n, int),
        host=host,
        domain=host,
        vertex_kind=("device",) * n + ("switch",) * (k + 1),
        vertex_name=str,
        vertex_count=np.ones(n + k + 1),
        link_kinds=(inner, outer),
        links=Links(
            src=src, dst=dst, bandwidth=rate, latency=latency, width=np.ones(4 * n), kind=kind
        ),
        router=router,
    )
