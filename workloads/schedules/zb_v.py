"""ZB-V (Qi et al., arXiv:2401.10241): two chunks on a V, memory of 1F1B, no bubble at F=B=W.

The first and last stage share rank 0. Fixed order: 2(p-r)-1 F of chunk 0; r times F1 F0; p-r times
F1 B1 W1; steady F0 B0 W0 F1 B1 W1; then the backwards first, W filling. Span bubble (p-1)(B-W) for
W <= F <= B and m >= 2p-1; peak p microbatches on every rank. Below m = 2p-1 it is the order for
2p-1 without the surplus microbatches.
"""

from workloads.schedules.action import Order, Orders
from workloads.schedules.kind import Request
from workloads.schedules.row import Row


def zb_v(request: Request) -> Orders:
    """Return every rank's order on the V."""
    p, m = request.num_ranks, request.num_microbatches
    count = max(m, 2 * p - 1)
    return tuple(
        tuple(entry for entry in _order(p, count, rank) if entry[0].microbatch < m)
        for rank in range(p)
    )


def _order(p: int, m: int, rank: int) -> Order:
    row = Row()
    for _ in range(2 * (p - rank) - 1):
        row.add(("F", 0))
    for _ in range(rank):
        row.add(("F", 1))
        row.add(("F", 0))
    for _ in range(p - rank):
        _forward_backward(row, 1, m)
    while row.next("F", 1) < m or row.next("F", 0) < m:
        _forward_backward(row, 0, m)
        _forward_backward(row, 1, m)
    for _ in range(rank):
        row.add(("B", 0))
        row.add(("B", 1))
    for _ in range(p - rank):
        row.add(("B", 0))
        row.add(("W", 0))
    for chunk in (1, 0):
        while row.next("W", chunk) < m:
            row.add(("W", chunk))
    return row.order()


def _forward_backward(row: Row, chunk: int, m: int) -> None:
    """Write F B W of a chunk, without F once all m are done."""
    if row.next("F", chunk) < m:
        row.add(("F", chunk))
    row.add(("B", chunk))
    row.add(("W", chunk))
