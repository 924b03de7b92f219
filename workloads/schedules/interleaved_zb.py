"""Interleaved zero bubble: the looped placement with the backward split (torch's rule).

Warm-up (p-1-r) + (v-1)N forwards, half the slope of interleaved 1F1B; W start after r backwards.
Bubble (p-1)(F+B-W)/v for W <= F <= B and p dividing m; peak p microbatches on every rank, counted
until W. Groups of N as in interleaved 1F1B without a given N.
"""

from workloads.schedules.action import Orders
from workloads.schedules.interleaved import group_size, walks
from workloads.schedules.kind import Request
from workloads.schedules.zb_h1 import split_order


def interleaved_zb(request: Request) -> Orders:
    """Return every rank's order: groups of N, warm-up (p-1-r) + (v-1)N, W after r backwards."""
    p = request.num_ranks
    down, up = walks(request)
    held = (request.chunks - 1) * group_size(request)
    return tuple(split_order(down, up, warmup=p - 1 - r + held, delay=r) for r in range(p))
