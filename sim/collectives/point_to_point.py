"""Point to point: many simultaneous sends, each pair on its own route."""

import numpy as np

from sim.cluster import Cluster
from sim.collectives.cost import PricedStage, price
from sim.collectives.phase import CollectivePlan
from sim.collectives.stage import Stage
from sim.errors import CollectiveError


def stage(cluster: Cluster, src: np.ndarray, dst: np.ndarray) -> PricedStage:
    """Price sends from ``src[i]`` to ``dst[i]``, one byte each, all at once."""
    src, dst = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
    if len(src) != len(dst) or not len(src):
        raise CollectiveError(
            f"{len(src)} senders and {len(dst)} receivers: give one of each a pair"
        )
    if (src == dst).any():
        raise CollectiveError(
            f"device {int(src[src == dst][0])} sends to itself; leave the pair out"
        )
    far = np.asarray(cluster.domain)[src] != np.asarray(cluster.domain)[dst]
    steps = (0.0 if far.any() else 1.0, 1.0) if far.any() else (1.0,)
    return price(
        cluster,
        "send_recv",
        Stage(
            name="send",
            rule="p2p",
            src=src,
            dst=dst,
            load=np.ones(len(src)),
            level=far.astype(int),
            steps=steps,
        ),
        np.arange(cluster.num_devices),
    )


def point_to_point(
    cluster: Cluster, src: np.ndarray, dst: np.ndarray, nbytes: float
) -> CollectivePlan:
    """Plan of ``nbytes`` sent by every pair at once; time of the slowest.

    NCCL's send/recv has few channels for messages below about 256 MiB and is slow there (measured, nccl-tests).
    """
    if not nbytes > 0:
        raise CollectiveError(
            f"send of nbytes={nbytes}: must be above zero; give its size in bytes"
        )
    phase, protocol = stage(cluster, src, dst).phase(float(nbytes))
    return CollectivePlan(kind="send_recv", algorithm="p2p", protocol=protocol, phases=(phase,))
