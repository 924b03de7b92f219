"""Read a measured machine's description (``H100 DGX IB 8x400G NVLSTree``) by its parts into a cluster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sim.cluster import Cluster
from sim.errors import InputError
from sim.units import GB, Gbit
from topologies import cluster
from topologies.fat_tree import fat_tree
from topologies.gpu_clusters import (
    A100,
    B200,
    B300,
    GB200,
    GB300,
    H20,
    H100,
    H200,
    H800,
    MI300X,
    MI355X,
)  # fmt: skip
from topologies.host import Host
from topologies.scale_up import single_host


class UnsupportedError(InputError):
    """A machine that reads well but that the row does not say enough about."""


GAUDI3 = replace(
    H100, device="gaudi3", scale_up="full_mesh", scale_up_kind="gaudi-roce", scale_up_bandwidth=21 * 200 * Gbit,
    scale_up_links=7, scale_up_switches=0,
)  # fmt: skip
HOSTS: Mapping[str, Host] = {
    "gb300": GB300,
    "gb200": GB200,
    "b300": B300,
    "b200": B200,
    "sm100": B200,
    "h200": H200,
    "h100": H100,
    "p5": H100,
    "sm90": H100,
    "h800": H800,
    "h20": H20,
    "a100-40": replace(A100, device="a100-40-sxm"),
    "a100": A100,
    "mi355x": MI355X,
    "mi350x": replace(MI355X, device="mi350x"),
    "mi325x": replace(MI300X, device="mi325x"),
    "mi300x": MI300X,
    "gaudi3": GAUDI3,
}
"""Servers by the first word found; the longer names first."""
FABRICS: tuple[tuple[str, str], ...] = (
    ("tcpxo", "tcpxo"), ("efa", "efa"), ("ainic", "roce"), ("roce", "roce"), ("ethernet", "roce"),
    ("ib", "ib"), ("infiniband", "ib"), ("ndr", "ib"), ("hdr", "ib"), ("xdr", "ib"), ("cx", "ib"),
)  # fmt: skip
"""Fabric by word, the most particular first: AINIC is Ethernet, ``IB/RoCE`` counts as RoCE."""
IB_BY_RATE = {100: "edr-100", 200: "hdr-200", 400: "ndr-400", 800: "xdr-800"}
REFUSED: Mapping[str, str] = {
    "unstated": "the network is not stated",
    "v100": "how its NVLinks are wired is not stated",
    "threshold": "a pass limit, not a measurement",
}
"""What makes a description useless, and why."""
RATE = re.compile(r"(?:(\d+)\s*x\s*)?(\d+)\s*g(?:b|bit|bps)?\b")
COUNT = re.compile(r"(\d+)\s*x\s*(?:cx\d|nic|hca)")
HINTS: tuple[tuple[str, str], ...] = (
    (r"nvlstree", "nvls_tree"), (r"nvls off|ring", "ring"), (r"sharp", "sharp"), (r"\btree", "tree"), (r"nvls", "nvls"),
)  # fmt: skip
"""Algorithm a description names."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a description says: the server and its fabric, or a preset; the algorithm named (``auto`` if none).

    ``copies``: devices of a chip that run the collective at once over the links of the chip. ``exact``: whether it
    says enough to calibrate on (of several racks it is not known how many adapters a rack uses).
    """

    host: Host | None
    preset: str
    algorithm: str
    racks: int = 0
    copies: int = 1
    exact: bool = True


def read_hardware(text: str) -> Machine:
    """Return the machine a description names; `UnsupportedError` where it leaves out what decides the time."""
    low = text.lower()
    for word, reason in REFUSED.items():
        if word in low:
            raise UnsupportedError(f"{text!r}: {reason}; a row that states it can be scored")
    words = [word for word in re.split(r"[^a-z0-9.-]+", low) if word]
    algorithm = next((a for pattern, a in HINTS if re.search(pattern, low)), "auto")
    racks = re.search(r"(\d+)\s+racks?", low)
    if preset := _tpu(low):
        return Machine(None, preset, algorithm, copies=2 if preset == "tpu-7x" else 1)
    name = next((known for known in HOSTS if any(_is(known, word) for word in words)), None)
    if name is None:
        raise UnsupportedError(f"{text!r} names no server known; known: TPU, {', '.join(HOSTS)}")
    host = HOSTS[name]
    if cut := re.search(r"nvl(\d+)", low):
        host = replace(host, domain_devices=int(cut[1]))
    if "pairwise" in low:
        host = replace(host, devices=2, nics=2, scale_up_bandwidth=300 * GB)
    several = int(racks[1]) if racks else 0
    vague = several > 1 or any(word in low for word in ("unnamed", "pairwise", "-class", "pcie"))
    return Machine(_with_network(host, low), "", algorithm, several, exact=not vague)


def _tpu(low: str) -> str:
    """Return the preset of a TPU: ``TPU7x``, ``TPU v5e``, ``v6e-256``."""
    found = re.search(r"tpu[\s-]*v?(\d[a-z]*)", low)
    return (
        f"tpu-{found[1]}"
        if found and found[1].endswith("x")
        else f"tpu-v{found[1]}"
        if found
        else ""
    )


def _is(known: str, word: str) -> bool:
    return word == known or word.startswith(known + "-")


def _with_network(host: Host, low: str) -> Host:
    """Replace the server's adapters by those stated."""
    fabric = next((f for word, f in FABRICS if re.search(rf"(?<![a-z]){word}", low)), "")
    rates = [(int(m[1] or 0), int(m[2])) for m in RATE.finditer(low)]
    count, rate = rates[-1] if rates else (0, 0)
    if found := COUNT.search(low):
        count = int(found[1])
    rate = rate or round(host.nic_bandwidth / Gbit)
    nics = count or host.nics
    kind = host.nic
    if fabric == "ib":
        kind = IB_BY_RATE.get(rate, host.nic)
    elif fabric == "roce":
        kind = f"roce-{rate}"
    elif fabric:
        kind = fabric
    return replace(host, nic=kind, nics=nics, nic_bandwidth=rate * Gbit)


@lru_cache(maxsize=256)
def build(machine: Machine, n_devices: int, n_nodes: int) -> tuple[Cluster, np.ndarray]:
    """Return a cluster just large enough, and the devices of the group: ``n_devices`` on ``n_nodes`` servers.

    Raises `InputError` where the counts do not divide.
    """
    host = machine.host
    if host is None:
        return cluster(machine.preset, n_devices), np.arange(n_devices)
    if machine.racks > 1:
        host = replace(host, domain_devices=-(-n_devices // machine.racks))
    if host.domain_size != host.devices or (n_devices <= host.devices and n_nodes == 1):
        devices = np.arange(n_devices)
    elif n_devices % n_nodes or n_devices // n_nodes > host.devices:
        raise InputError(
            f"n_devices={n_devices} on n_nodes={n_nodes} does not fill servers of {host.devices} evenly"
        )
    else:
        each = n_devices // n_nodes
        devices = (np.arange(n_nodes)[:, None] * host.devices + np.arange(each)).ravel()
    total = int(devices[-1]) + 1
    if total <= host.domain_size:
        return single_host(total, host), devices
    total = -(-total // host.domain_size) * host.domain_size
    return fat_tree(total, host), devices
