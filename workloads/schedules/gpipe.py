"""GPipe (Huang et al., arXiv:1811.06965): all forwards, then all backwards.

Bubble (p-1)(F+B+W); peak: all m microbatches. The backward runs in ascending microbatch order.
"""

from workloads.schedules.action import Orders, backward, forward
from workloads.schedules.kind import Request


def gpipe(request: Request) -> Orders:
    """Return every rank's order: all F, then all BW."""
    microbatches = range(request.num_microbatches)
    order = (*(forward(0, i) for i in microbatches), *(backward(0, i) for i in microbatches))
    return (order,) * request.num_ranks
