"""1F1B (PipeDream-flush; Narayanan et al., arXiv:2104.04473): one forward, one backward.

Rank r warms up with min(p-1-r, m) forwards, alternates, then drains. Bubble (p-1)(F+B+W); peak
min(p-r, m) microbatches.
"""

from workloads.schedules.action import Order, Orders, backward, forward
from workloads.schedules.kind import Request


def one_f_one_b(request: Request) -> Orders:
    """Return every rank's order: warm-up forwards, F BW pairs, then the remaining BW."""
    return tuple(_order(request, rank) for rank in range(request.num_ranks))


def _order(request: Request, rank: int) -> Order:
    m = request.num_microbatches
    warmup = min(request.num_ranks - 1 - rank, m)
    entries = [forward(0, i) for i in range(warmup)]
    for i in range(warmup, m):
        entries += [forward(0, i), backward(0, i - warmup)]
    entries += [backward(0, i) for i in range(m - warmup, m)]
    return tuple(entries)
