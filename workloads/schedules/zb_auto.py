"""ZB-1p, ZB-2p: zero-bubble orders searched for the times, under a memory limit (arXiv:2401.10241).

Each rank warms up with the forwards that fit before its first backward can arrive and memory
allows; then one forward and one backward a wave. A gap that holds a W is filled with one, a smaller
gap only if the rank would otherwise become the most idle; W run early when memory is full, and the
rest at the end. The best of a few readings of these rules is taken: least span, then makespan,
then memory. Limits: p (ZB-1p) and 2p (ZB-2p) microbatches of activations.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from sim.errors import ScheduleError
from workloads.schedules.action import Orders
from workloads.schedules.draft import Draft, Found, StuckError
from workloads.schedules.kind import Request
from workloads.schedules.placement import Placement

PAPER_WEIGHT_MEMORY = 0.43
"""Part of an activation kept from B to W in the models of arXiv:2401.10241 (32 / (34 + 5as/h))."""


def zb_1p(request: Request) -> Orders:
    """Return the orders found with activations of p microbatches."""
    return search(request, request.memory_limit or request.num_ranks)


def zb_2p(request: Request) -> Orders:
    """Return the orders found with activations of 2p microbatches."""
    return search(request, request.memory_limit or 2 * request.num_ranks)


def weight_memories(request: Request) -> tuple[float, ...]:
    """Return the parts of an activation to count from B to W: as asked, or held whole and paper's.

    A limit that is given counts activations whole until W, unless the part is given too.
    """
    if request.weight_memory:
        return (request.weight_memory,)
    return (1.0,) if request.memory_limit else (1.0, PAPER_WEIGHT_MEMORY)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One reading of the rules."""

    steps: int
    """By how many forwards a rank's extra warm-up is shorter than its predecessor's, at least."""
    overshoot: bool
    """A warm-up forward may end after the first backward could start."""
    worst_only: bool
    """A gap smaller than W is filled only if the rank would become the most idle; else always."""
    order: str
    """In a wave: ``F`` all forwards first; ``fit`` a forward first if it fits; ``start`` if it
    could start, before the backward's input arrives."""


def _readings() -> Iterator[_Reading]:
    warmups = ((1, False), (1, True), (2, False))
    for (steps, overshoot), worst_only, order in product(
        warmups, (True, False), ("F", "fit", "start")
    ):
        yield _Reading(steps, overshoot, worst_only, order)


def search(request: Request, limit: float) -> Orders:
    """Return the best orders under ``limit`` microbatches of activations.

    Raises `ScheduleError` if nothing fits.
    """
    best: Found | None = None
    placement = Placement("loop", request.num_ranks)
    for weight_memory in weight_memories(request):
        for reading in _readings():
            draft = Draft(request, placement, limit=limit, weight_memory=weight_memory)
            try:
                found = _write(draft, reading)
            except StuckError:
                continue
            if best is None or found.score < best.score:
                best = found
        if best is not None and best.score[0] <= 1.0:
            break
    if best is None:
        raise ScheduleError(
            f"memory_limit={limit:g} does not hold one microbatch; choose memory_limit of at least 1"
        )
    return best.orders


def _write(draft: Draft, reading: _Reading) -> Found:
    ranks = range(draft.placement.num_ranks)
    for rank in ranks:
        draft.put_next(rank, "F", 0)
    for rank, extra in enumerate(_warmup(draft, reading)):
        for _ in range(extra):
            draft.put_next(rank, "F", 0)
    for rank in reversed(ranks):
        draft.put_next(rank, "B", 0)
    for _ in range(1, draft.num_microbatches):
        if reading.order == "F":
            _forwards_first(draft, reading)
        else:
            _backwards_first(draft, reading)
    return draft.finish()


def _warmup(draft: Draft, reading: _Reading) -> list[int]:
    """Return how many forwards more than one each rank does before its first backward."""
    p, m = draft.placement.num_ranks, draft.num_microbatches
    f, b, comm, eps = draft.cost["F"], draft.cost["B"], _hop(draft), draft.eps
    extra = [0] * p
    arrival = draft.time[-1] + b + comm
    for rank in reversed(range(p - 1)):
        held, now = draft.held[rank], draft.time[rank]
        while 1 + extra[rank] < m and held + 1.0 <= draft.limit:
            late = now >= arrival - eps if reading.overshoot else now + f > arrival + eps
            if late:
                break
            held, now, extra[rank] = held + 1.0, now + f, extra[rank] + 1
        arrival = max(now, arrival) + b + comm
    for rank in range(1, p):
        most = extra[rank - 1] - reading.steps
        while extra[rank] > max(most, 0) and 1 + extra[rank] < m:
            extra[rank] -= 1
    return extra


def _hop(draft: Draft) -> float:
    source = draft.sources["B", 0][0]
    return source[1] if source else 0.0


def _put(draft: Draft, reading: _Reading, rank: int, kind: str) -> None:
    """Fill the gap before the next such action as the rules say, then run it."""
    ready = draft.ready(rank, kind, 0)
    if ready is None:
        raise StuckError
    draft.fill(rank, ready)
    gap = ready - draft.time[rank]
    spare = max(draft.idle) - draft.idle[rank] if reading.worst_only else 0.0
    if draft.owed[rank] and gap > spare + draft.eps:
        draft.put_weight(rank)
    draft.put(rank, kind, 0, ready)


def _forward(draft: Draft, reading: _Reading, rank: int) -> None:
    draft.make_room(rank)
    _put(draft, reading, rank, "F")


def _forwards_first(draft: Draft, reading: _Reading) -> None:
    ranks, forwards = range(draft.placement.num_ranks), draft.count["F", 0]
    for rank in ranks:
        if forwards[rank] < draft.num_microbatches:
            _forward(draft, reading, rank)
    for rank in reversed(ranks):
        _put(draft, reading, rank, "B")


def _backwards_first(draft: Draft, reading: _Reading) -> None:
    """One wave from the last rank up; forwards that would delay the backward come after it."""
    forwards, backwards = draft.count["F", 0], draft.count["B", 0]
    length = draft.cost["F"] if reading.order == "fit" else 0.0
    late = []
    for rank in reversed(range(draft.placement.num_ranks)):
        todo = forwards[rank] < draft.num_microbatches
        if todo and forwards[rank] == backwards[rank]:  # the backward needs this very forward
            _forward(draft, reading, rank)
            todo = False
        arrival = draft.ready(rank, "B", 0)
        ready = draft.ready(rank, "F", 0) if todo else None
        if arrival is not None and ready is not None:
            begin = max(draft.time[rank], ready)
            roomy = draft.held[rank] + 1.0 <= draft.limit
            todo = not (roomy and begin + length <= arrival + draft.eps)
            if not todo:
                _forward(draft, reading, rank)
        _put(draft, reading, rank, "B")
        if todo:
            late.append(rank)
    for rank in reversed(late):
        _forward(draft, reading, rank)
