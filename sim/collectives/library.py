"""Algorithms by name, and which of them each maker's library chooses from. A new one is a file and a line here."""

from collections.abc import Mapping

import numpy as np

from sim.cluster import Cluster
from sim.collectives.bruck import BRUCK
from sim.collectives.direct import DIRECT
from sim.collectives.halving_doubling import HALVING_DOUBLING
from sim.collectives.hierarchical import HIERARCHICAL
from sim.collectives.hierarchical_a2a import HIERARCHICAL_A2A
from sim.collectives.nvls import NVLS
from sim.collectives.nvls_tree import NVLS_TREE, SHARP
from sim.collectives.pairwise import EXPERT, PAIRWISE
from sim.collectives.ring import RING
from sim.collectives.stage import Algorithm
from sim.collectives.star import STAR
from sim.collectives.torus import TORUS
from sim.collectives.tree import TREE

ALGORITHMS: Mapping[str, Algorithm] = {
    "ring": RING,
    "tree": TREE,
    "direct": DIRECT,
    "halving_doubling": HALVING_DOUBLING,
    "hierarchical": HIERARCHICAL,
    "nvls": NVLS,
    "nvls_tree": NVLS_TREE,
    "sharp": SHARP,
    "torus": TORUS,
    "pairwise": PAIRWISE,
    "star": STAR,
    "hierarchical_a2a": HIERARCHICAL_A2A,
    "bruck": BRUCK,
    "ep": EXPERT,
}
"""Every algorithm, by name."""

LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "nvidia": ("ring", "tree", "nvls", "nvls_tree", "pairwise", "star"),
    "amd": ("ring", "tree", "direct", "pairwise", "star"),
    "google": ("torus", "ring", "hierarchical", "direct", "pairwise", "star"),
    "huawei": ("ring", "halving_doubling", "hierarchical", "direct", "pairwise", "star"),
    "aws": ("torus", "ring", "hierarchical", "direct", "pairwise", "star"),
}
"""What ``auto`` chooses from, by maker of the device: NCCL, RCCL, XLA, HCCL, the Neuron runtime."""

DEFAULT_LIBRARY = ("ring", "tree", "direct", "hierarchical", "pairwise", "star")


def library_of(cluster: Cluster, groups: np.ndarray) -> tuple[str, ...]:
    """Algorithms the library of the groups' devices chooses from."""
    device = cluster.device_kinds[int(cluster.device_kind[groups.flat[0]])]
    return LIBRARIES.get(device.vendor.lower(), DEFAULT_LIBRARY)
