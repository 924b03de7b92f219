"""Virgo: TPU 8t superpods joined by a flat two-layer fabric.

134,400 chips are 14 superpods of 9,600; 400 Gb/s a chip; 47 Pb/s across the middle of the fabric, 0.87 of what its
chips inject (Google announcement).
"""

from dataclasses import replace
from typing import Any

from sim.cluster import Cluster
from topologies.torus import torus


def virgo(num_devices: int, **parameters: Any) -> Cluster:
    """Return superpods (see `topologies.torus.torus` for the parameters) joined by the Virgo fabric.

    The inner wiring of the fabric is not published: a stage a superpod and one stage above stand for it.
    """
    cluster = torus(num_devices, **parameters)
    return replace(
        cluster,
        family="virgo",
        assumptions=(
            *cluster.assumptions,
            "the inner wiring of Virgo is not published: one stage a superpod and one above, 0.87 of injection",
            "19.2 Tb/s a chip read as both directions of six links: 200 GB/s a link one way",
        ),
    )
