"""ZB-V, searched for the times (arXiv:2401.10241): greedy on a V under a memory limit.

Warm-up: ranks from the last up run the forwards of chunk 0 that fit before chunk 1 arrives. Then a
round is one backward and one forward a rank; chunk 1 goes first until chunk 0's backward (or chunk
1's forward) has its input. A gap that holds a W is filled with one; a smaller gap, if the rank
would otherwise become the most idle, before some of the four kinds of action; the best choice of
those is taken. Limit: p microbatches of activations.
"""

from dataclasses import dataclass

from workloads.schedules.action import Orders
from workloads.schedules.draft import Draft, Found, StuckError
from workloads.schedules.kind import Request
from workloads.schedules.placement import Placement
from workloads.schedules.v_pattern import search_pattern
from workloads.schedules.zb_auto import weight_memories


@dataclass(frozen=True, slots=True)
class _Reading:
    """Before which actions a small gap is filled, and whether a tie for the most idle counts."""

    before: frozenset[tuple[str, int]]
    ties: bool


_ALL = frozenset({("F", 0), ("F", 1), ("B", 0), ("B", 1)})
_READINGS = (
    _Reading(_ALL, False),
    _Reading(_ALL, True),
    _Reading(_ALL - {("B", 1)}, False),
    _Reading(frozenset({("F", 0), ("B", 0)}), True),
    _Reading(frozenset({("B", 0), ("B", 1)}), False),
    _Reading(frozenset(), False),
)


def zb_v_greedy(request: Request) -> Orders:
    """Return the best orders found; raise `ScheduleError` if nothing fits the memory limit."""
    placement = Placement("v", request.num_ranks, 2)
    limit = request.memory_limit or request.num_ranks
    best: Found | None = None
    for weight_memory in weight_memories(request):
        for reading in _READINGS:
            draft = Draft(
                request,
                placement,
                limit=limit / placement.share,
                weight_memory=weight_memory,
            )
            try:
                found = _write(draft, reading)
            except StuckError:
                continue
            if best is None or found.score < best.score:
                best = found
    if best is None:
        best = search_pattern(request, limit=limit, weight_memory=weight_memories(request)[-1])
    return best.orders


def _write(draft: Draft, reading: _Reading) -> Found:
    _warm_up(draft)
    _level(draft)
    for _ in range(2 * draft.num_microbatches):
        _backwards(draft, reading)
        _forwards(draft, reading)
    return draft.finish()


def _warm_up(draft: Draft) -> None:
    p, m, f = draft.placement.num_ranks, draft.num_microbatches, draft.cost["F"]
    for rank in range(p):
        draft.put_next(rank, "F", 0)
    for rank in reversed(range(p)):
        if rank < p - 1:
            arrival = draft.ready(rank, "F", 1)
            assert arrival is not None
            while (
                draft.held[rank] + 2 + 2 * rank <= draft.limit
                and draft.time[rank] + f <= arrival + draft.eps
                and draft.count["F", 0][rank] < m
            ):
                for before in range(rank + 1):
                    draft.put_next(before, "F", 0)
        draft.put_next(rank, "F", 1)


def _level(draft: Draft) -> None:
    """Bring every rank to as many forwards as the one before, the chunks in turn."""
    p, m = draft.placement.num_ranks, draft.num_microbatches
    first, second = draft.count["F", 0], draft.count["F", 1]
    chunk = 0
    for rank in range(1, p):
        while (
            first[rank] + second[rank] < first[rank - 1] + second[rank - 1]
            or second[rank] <= second[rank - 1] < m
        ):
            for behind in reversed(range(rank, p)):
                if draft.count["F", chunk][behind] < m:
                    draft.put_next(behind, "F", chunk)
            chunk = 1 - chunk


def _put(draft: Draft, reading: _Reading, rank: int, kind: str, chunk: int) -> None:
    ready = draft.ready(rank, kind, chunk)
    if ready is None:
        raise StuckError
    draft.fill(rank, ready)
    if (kind, chunk) in reading.before and draft.owed[rank]:
        gap, spare = ready - draft.time[rank], max(draft.idle) - draft.idle[rank]
        if gap > spare + (-draft.eps if reading.ties else draft.eps):
            draft.put_weight(rank)
    draft.put(rank, kind, chunk, ready)


def _backwards(draft: Draft, reading: _Reading) -> None:
    ranks, m = range(draft.placement.num_ranks), draft.num_microbatches
    turns = [_backward_chunk(draft, rank) for rank in ranks]
    for rank in ranks:
        if turns[rank] == 1:
            _put(draft, reading, rank, "B", 1)
    for rank in reversed(ranks):
        if turns[rank] == 0 and draft.count["B", 0][rank] < m:
            _put(draft, reading, rank, "B", 0)


def _backward_chunk(draft: Draft, rank: int) -> int:
    first, second = draft.count["B", 0][rank], draft.count["B", 1][rank]
    if second <= first:
        return 1
    last = rank == draft.placement.num_ranks - 1
    done = second >= draft.num_microbatches
    return 0 if last or done or draft.ready(rank, "B", 0) is not None else 1


def _forwards(draft: Draft, reading: _Reading) -> None:
    p, m = draft.placement.num_ranks, draft.num_microbatches
    for rank in range(p):
        first, second = draft.count["F", 0][rank], draft.count["F", 1][rank]
        if second >= m:
            continue
        if second < first and (rank == p - 1 or draft.ready(rank, "F", 1) is not None):
            chunk = 1
        elif first < m:
            chunk = 0
        else:
            continue
        draft.make_room(rank)
        _put(draft, reading, rank, "F", chunk)
