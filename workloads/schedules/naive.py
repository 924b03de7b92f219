"""Naive layer-wise pipeline: one microbatch in the machine at a time.

Makespan mp(F+B+W) + 2m(p-1)c: utilisation 1/p. Peak: one microbatch.
"""

from workloads.schedules.action import Orders, backward, forward
from workloads.schedules.kind import Request


def naive(request: Request) -> Orders:
    """Return every rank's order: F0 BW0 F1 BW1 ..."""
    order = tuple(
        entry for i in range(request.num_microbatches) for entry in (forward(0, i), backward(0, i))
    )
    return (order,) * request.num_ranks
