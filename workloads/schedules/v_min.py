"""V-Min (Qi et al., arXiv:2405.15362): a third of the activation memory of 1F1B, on a V.

Searched among the patterns of `v_pattern` for the times, under floor((p+4)/3) microbatches of
activations held until W (p > 2; always less than V-Half); makespan bubble about (4p-5)F/2 at F=B=W,
more when they differ.
"""

from workloads.schedules.action import Orders
from workloads.schedules.kind import Request
from workloads.schedules.v_pattern import search_pattern


def v_min(request: Request) -> Orders:
    """Return the orders of least makespan within floor((p+4)/3) microbatches."""
    p = request.num_ranks
    limit = min((p + 4) // 3, (p + 1) / 2)
    return search_pattern(request, limit=limit, by_makespan=True).orders
