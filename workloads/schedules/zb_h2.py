"""ZB-H2 (Qi et al., arXiv:2401.10241, figure 3): twice the warm-up of ZB-H1, no bubble in the span.

Rank r warms up with 2(p-1-r)+1 forwards and starts W after 2r backwards. Span bubble
(p-1) max(F+B-2W, B-F, 0) + 2(p-1)c for m >= 2p-1 (below that ZB-H1 is better); peak 2(p-1-r)+1
microbatches of activations and 2r of what W needs.
"""

from workloads.schedules.action import Orders
from workloads.schedules.kind import Request
from workloads.schedules.zb_h1 import split_order


def zb_h2(request: Request) -> Orders:
    """Return every rank's order: 2(p-1-r)+1 F before the first B, W from the 2r-th backward on."""
    p = request.num_ranks
    walk = [(0, i) for i in range(request.num_microbatches)]
    return tuple(split_order(walk, walk, warmup=2 * (p - 1 - r), delay=2 * r) for r in range(p))
