"""DualPipe (DeepSeek-V3, arXiv:2412.19437): microbatches enter from both ends, two model copies.

A chunk is a direction: half the microbatches go each way. Forwards run beside backwards of the
other direction as overlapped pairs. Largest idle time of a rank (p/2-1)(F&B + B+W - 3W) for F = B
>= W; memory p+1 stage activations and two copies of the parameters.
"""

from sim.errors import ScheduleError
from workloads.schedules.action import Order, Orders
from workloads.schedules.kind import Request
from workloads.schedules.row import Row

RULE = "an even number of stages p, and an even number of microbatches, at least 2p"


def check_dualpipe(request: Request) -> None:
    """Raise `ScheduleError` unless p is even, and m even and at least 2p."""
    p, m = request.num_ranks, request.num_microbatches
    if p % 2:
        near = " or ".join(str(n) for n in (p - 1, p + 1) if n)
        raise ScheduleError(f"dualpipe needs an even number of stages, not {p}; choose {near}")
    if m % 2 or m < 2 * p:
        near = " or ".join(str(n) for n in (m - 1, m + 1) if m % 2 and n >= 2 * p) or str(2 * p)
        raise ScheduleError(
            f"dualpipe on stages={p} needs an even number of microbatches, at least {2 * p}, "
            f"not {m}; choose microbatches={near}"
        )


def dualpipe(request: Request) -> Orders:
    """Return every rank's order; the second half of the ranks sees the directions swapped."""
    p, m = request.num_ranks, request.num_microbatches
    return tuple(
        eight_steps(p // 2, min(r, p - 1 - r), m // 2, near=int(r >= p // 2)) for r in range(p)
    )


def eight_steps(half: int, h: int, m: int, *, near: int = 0) -> Order:
    """Return the order of the rank ``h`` steps from the end of a half of ``half`` ranks.

    ``m`` microbatches pass each chunk; chunk ``near`` enters here first. The steps: forwards; both
    forwards; B W F; pairs; backward and pair; backwards, the second half split; W B; W.
    """
    row, far, rest = Row(), 1 - near, half - h - 1
    for _ in range(2 * rest):
        row.add(("F", near))
    for _ in range(h + 1):
        row.add(("F", near))
        row.add(("F", far))
    for _ in range(rest):
        row.add(("B", far))
        row.add(("W", far))
        row.add(("F", far))
    for k in range(m - 2 * half + h + 1):
        if k == 0 and rest == 0:  # the turn of the V: forward and backward of one microbatch
            row.add(("F", near))
            row.add(("BW", far))
        else:
            row.add(("F", near), ("BW", far))
        row.add(("F", far), ("BW", near))
    for _ in range(rest):
        row.add(("BW", far))
        row.add(("F", far), ("BW", near))
    _drain(row, h, rest, (far, near))
    return row.order()


def _drain(row: Row, h: int, rest: int, turns: tuple[int, int]) -> None:
    """Write the last backwards, the second half of them split, and their W first in, first out."""
    owed = []
    for k in range(2 * (h + 1)):
        row.add(("BW" if k <= h else "B", turns[k % 2]))
        if k > h:
            owed.append(turns[k % 2])
    for _ in range(rest):
        row.add(("W", owed.pop(0)))
        row.add(("B", turns[1]))
        owed.append(turns[1])
    for chunk in owed:
        row.add(("W", chunk))
