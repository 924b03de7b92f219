"""Collectives: what moves where, and what it costs on a graph. One algorithm a file."""

from collections.abc import Mapping

import numpy as np

from sim.cluster import Cluster
from sim.collectives.communicator import KINDS, Communicator
from sim.collectives.direct import DIRECT
from sim.collectives.hierarchical import HIERARCHICAL
from sim.collectives.nvls import NVLS
from sim.collectives.pairwise import PAIRWISE
from sim.collectives.phase import CollectivePlan, Phase
from sim.collectives.point_to_point import point_to_point
from sim.collectives.ring import RING
from sim.collectives.stage import Algorithm

ALGORITHMS: Mapping[str, Algorithm] = {
    a.name: a for a in (RING, DIRECT, NVLS, HIERARCHICAL, PAIRWISE)
}
"""Every algorithm, by name."""

LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "nvidia": ("ring", "nvls", "pairwise", "direct"),
}
"""What ``auto`` chooses from, by maker of the device."""

DEFAULT_LIBRARY = ("ring", "direct", "hierarchical", "pairwise", "nvls")


def library_of(cluster: Cluster, groups: np.ndarray) -> tuple[str, ...]:
    """Algorithms the library of the groups' devices chooses from."""
    device = cluster.device_kinds[int(cluster.device_kind[groups.flat[0]])]
    return LIBRARIES.get(device.vendor, DEFAULT_LIBRARY)


__all__ = [
    "ALGORITHMS", "KINDS", "LIBRARIES", "Algorithm", "CollectivePlan", "Communicator", "Phase", "library_of",
    "point_to_point",
]  # fmt: skip
