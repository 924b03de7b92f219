"""Occupancy: a rank's step as readers of profilers' traces split it: by what runs, not by what is waited for.

The ledger asks why a rank does not compute, and books a pipeline's bubble as one even while the rank's own message is
still leaving. A trace only shows kernels: HolisticTraceAnalysis' temporal breakdown counts time with a kernel of
computation as compute, other time with any kernel as non-compute, the rest as idle. Both agree on compute;
communication here is the ledger's exposed communication and the transfers that run in its bubbles, waits and launch
gaps. A transfer takes time from when both ends are there; waiting for a peer is idle time, here and in `sim.kineto`
(NCCL's kernel would spin).
"""

from typing import NamedTuple

import numpy as np

from sim.program import Compute
from sim.timeline import Timeline


class Occupancy(NamedTuple):
    """Seconds of a step in which a rank computes, only communicates, or does neither; they sum to the step time."""

    compute: float
    communication: float
    idle: float


def occupancy(timeline: Timeline, rank_class: int) -> Occupancy:
    """Return how one rank class spends the step, by what runs on it."""
    computing: list[tuple[float, float]] = []
    transferring: list[tuple[float, float]] = []
    for record in timeline.streams_of[rank_class]:
        for span in timeline.spans(rank_class, record.name):
            kind = computing if isinstance(span.op, Compute) else transferring
            kind.append((span.start, span.end))
    compute = covered(computing)
    busy = covered(computing + transferring)
    return Occupancy(compute, busy - compute, timeline.step_time - busy)


def covered(intervals: list[tuple[float, float]]) -> float:
    """Return the length of the union of intervals.

    >>> covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    if not intervals:
        return 0.0
    found = np.array(sorted(intervals))
    reached = np.maximum.accumulate(found[:, 1])
    before = np.concatenate([[found[0, 0]], reached[:-1]])
    return float(np.maximum(reached - np.maximum(found[:, 0], before), 0.0).sum())
