"""Host: copies between a device and its host's memory, and work the host does there, as collectives of one rank.

A program puts them on an axis of groups of one; no link of the graph carries them, and they take no compute of the
device (copy engines). ``host_copy`` moves ``nbytes`` over the device's own host link, each direction on a stream of its
own; ``host_step`` reads and writes ``nbytes`` of host memory, the device's share of it (an optimizer's step there).
"""

from collections.abc import Callable, Mapping

import numpy as np

from sim.collectives.phase import CollectivePlan, Phase
from sim.device import Device
from sim.errors import CollectiveError
from sim.units import us

LINK_EFFICIENCY = 0.85
"""Share of a PCIe link's rate that pinned copies reach: 25-27 of 31.5 GB/s (gen 4), 53-55 of 63 (gen 5). Recalled."""
MEMORY_EFFICIENCY = 0.7
"""Share of the memory's rate that streaming code reaches (STREAM on two-socket servers: 0.65-0.8). Recalled."""
COPY_LATENCY = 10.0 * us
"""Seconds from the call to the first byte of a copy. Assumed."""

RATES: Mapping[str, Callable[[Device], float]] = {
    "host_copy": lambda device: device.host_bandwidth * LINK_EFFICIENCY,
    "host_step": lambda device: device.host_memory_bandwidth * MEMORY_EFFICIENCY,
}
"""Bytes/s of each kind."""


def host_plan(kind: str, nbytes: float, device: Device) -> CollectivePlan:
    """Return how ``kind`` of ``nbytes`` runs; `CollectiveError` where the device's host is not known."""
    rate = RATES[kind](device)
    if not rate > 0:
        raise CollectiveError(
            f"{kind} on {device.name}: the rates of its host are not known; choose a device whose file has host_GBps "
            f"and host_memory_GBps, or do not offload"
        )
    none = np.zeros(0, dtype=np.int64)
    phase = Phase(
        name=kind, latency=COPY_LATENCY, nbytes=nbytes, ceiling=rate, links=none, loads=np.zeros(0)
    )
    return CollectivePlan(kind=kind, algorithm="host", protocol="host", phases=(phase,))
