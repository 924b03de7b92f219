"""ZB-H1 (Qi et al., arXiv:2401.10241): 1F1B with the backward split, the weight gradients fill.

Rank r starts its W after r backwards: (F B) r times, then F B W, drain B W, the rest W. Bubble
(p-1) max(F+B-W, F, B) for m >= p; span bubble (p-1) max(F+B-W, B); peak p-r microbatches of
activations and r of what W needs.
"""

from workloads.schedules.action import (
    Entry,
    Order,
    Orders,
    backward_input,
    backward_weight,
    forward,
)
from workloads.schedules.kind import Request

Walk = list[tuple[int, int]]
"""(chunk, microbatch) in the order a rank meets them."""


def split_order(down: Walk, up: Walk, *, warmup: int, delay: int) -> Order:
    """Return F x ``warmup``, then F B, with a W after each B once ``delay`` of them are owed.

    ``down`` is the sequence of forwards, ``up`` of backwards; W come first in, first out.
    """
    total = len(down)
    warmup = min(warmup, total)
    entries: list[Entry] = [forward(*at) for at in down[:warmup]]
    for k, at in enumerate(up):
        if warmup + k < total:
            entries.append(forward(*down[warmup + k]))
        entries.append(backward_input(*at))
        if k >= delay:
            entries.append(backward_weight(*up[k - delay]))
    entries += [backward_weight(*at) for at in up[max(total - delay, 0) :]]
    return tuple(entries)


def zb_h1(request: Request) -> Orders:
    """Return every rank's order: warm-up p-1-r, W from the r-th backward on."""
    p = request.num_ranks
    walk = [(0, i) for i in range(request.num_microbatches)]
    return tuple(split_order(walk, walk, warmup=p - 1 - r, delay=r) for r in range(p))
