"""V-Half (Qi et al., arXiv:2405.15362): half the activation memory of 1F1B, on a V.

Searched among the patterns of `v_pattern` for the times, under (p+2)/2 microbatches of activations
held until W; makespan bubble about (3p-7)F/2 at F=B=W.
"""

from workloads.schedules.action import Orders
from workloads.schedules.kind import Request
from workloads.schedules.v_pattern import search_pattern


def v_half(request: Request) -> Orders:
    """Return the orders of least makespan within (p+2)/2 microbatches."""
    return search_pattern(request, limit=(request.num_ranks + 2) / 2, by_makespan=True).orders
