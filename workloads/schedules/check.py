"""One validator for every schedule: each action exactly once, in a legal order, no deadlock."""

from collections.abc import Iterator

from sim.errors import ScheduleError
from workloads.schedules.action import Entry, Orders, Token, format_entry
from workloads.schedules.grid import slots_grid
from workloads.schedules.placement import Placement
from workloads.schedules.timing import deadlock, describe

_PAIRS = ({"F", "B"}, {"F", "BW"})


def check_orders(orders: Orders, placement: Placement, num_microbatches: int) -> None:
    """Raise `ScheduleError`, with the offending cell drawn in a grid, if the orders are illegal.

    Every chunk does F and BW (or B and W) of each of its microbatches exactly once; a backward
    after its forward, W after B; a pair overlaps an F with a B or BW; no ranks wait for each other.
    """
    if len(orders) != placement.num_ranks:
        raise ScheduleError(
            f"{len(orders)} rows for {placement.num_ranks} ranks; give one row a rank"
        )
    if num_microbatches % placement.num_directions:
        raise ScheduleError(
            f"microbatches={num_microbatches} on a bidirectional placement must be even; "
            f"choose {num_microbatches - 1} or {num_microbatches + 1}"
        )
    count = placement.num_microbatches(num_microbatches)
    for rank, order in enumerate(orders):
        done: set[Token] = set()
        for slot, entry in enumerate(order):
            problem = _problem(entry, done, placement.chunks, count)
            if problem:
                raise ScheduleError(_message(orders, rank, slot, problem))
            done.update(covered for token in entry for covered in _covers(token))
        missing = next(
            (token for token in _all(placement.chunks, count) if token not in done), None
        )
        if missing is not None:
            problem = f"{missing} is missing: rank {rank} never does it; add it to the row"
            raise ScheduleError(_message(orders, rank, len(order), problem, f"({missing})"))
    waits = deadlock(orders, placement)
    if waits:
        problem = f"deadlock: {describe(orders, waits)}; bring what is waited for forward"
        raise ScheduleError(_message(orders, waits[0].rank, waits[0].slot, problem))


def _message(orders: Orders, rank: int, slot: int, problem: str, missing: str = "") -> str:
    grid = slots_grid(orders, mark=(rank, slot), missing=missing)
    return f"illegal schedule at rank {rank}, slot {slot}: {problem}\n{grid}"


def _covers(token: Token) -> tuple[Token, ...]:
    """Return what a token does: BW is B and W."""
    if token.kind == "BW":
        return (token._replace(kind="B"), token._replace(kind="W"))
    return (token,)


def _all(chunks: int, count: int) -> Iterator[Token]:
    for chunk in range(chunks):
        for microbatch in range(count):
            for kind in ("F", "B", "W"):
                yield Token(kind, chunk, microbatch)


def _problem(entry: Entry, done: set[Token], chunks: int, count: int) -> str:
    """Return what is wrong with an entry after ``done``, or nothing."""
    for token in entry:
        if token.chunk >= chunks:
            return f"{token} is of chunk {token.chunk}; a rank has chunks 0 to {chunks - 1}"
        if token.microbatch >= count:
            return f"{token} is of microbatch {token.microbatch}; there are 0 to {count - 1}"
        if any(covered in done for covered in _covers(token)):
            return f"{token} is done twice; remove one of them"
        need = token._replace(kind="B" if token.kind == "W" else "F")
        if token.kind != "F" and need not in done:
            return f"{token} comes before {need}; put it after"
    if len(entry) == 2:
        kinds = {token.kind for token in entry}
        if kinds not in _PAIRS:
            return f"{format_entry(entry)} overlaps {' and '.join(sorted(kinds))}; pair F with BW"
    return ""
