"""Orders on a V from a repeated pattern: the building blocks of V-Half and V-Min (arXiv:2405.15362).

One microbatch goes down (F0) and up (F1) the V and back (B1, B0), with a slack at every rank on
each of the four passes; the next follows 2(F+B+W)/v later, when every rank has worked once. How
long an activation lives, so how many are held, follows from the slacks. The pattern's order is then
run as early as possible: W and later actions of the pattern fill a rank's gaps where memory allows.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product

from sim.errors import ScheduleError
from workloads.schedules.draft import Draft, Found, StuckError
from workloads.schedules.kind import Request, Times
from workloads.schedules.placement import Placement

Step = tuple[str, int]
"""(kind, chunk) of an action."""

SLACKS = (
    (0, 0, 0, 0),
    (1, 0, 1, 0),
    (1, 0, 2, 1),
    (1, 1, 2, 2),
    (0, 1, 1, 0),
    (0, 1, 1, 2),
    (0, 1, 0, 0),
    (0, 0, 1, 0),
    (0, 0, 2, 2),
    (2, 1, 0, 1),
)
"""Slack of the passes F0, F1, B1, B0 at every rank, in mean action times."""
GAPS = ("later first", "W first", "W")
LOOK_AHEAD = 12
"""How many entries of the pattern ahead a gap may be filled from."""
NUM_FINALISTS = 3


@dataclass(frozen=True, slots=True)
class _Reading:
    slack: tuple[int, int, int, int]
    own_times: bool
    """The pattern is laid out with the times asked for; else with F = B = W and no hop time."""
    gaps: str
    """A gap takes ``W`` alone, ``W first`` before a later F or B, or ``later first``, which also
    puts a W into a gap of half its length."""


def search_pattern(
    request: Request, *, limit: float, weight_memory: float = 1.0, by_makespan: bool = False
) -> Found:
    """Return the best orders under ``limit`` microbatches of activations.

    Patterns are compared on the first microbatches, the best few in full. Raises `ScheduleError` if
    nothing fits the limit.
    """
    p, m = request.num_ranks, request.num_microbatches
    few = min(m, 2 * p + 1)
    readings = [_Reading(*picks) for picks in product(SLACKS, (True, False), GAPS)]

    def run(reading: _Reading, count: int) -> Found | None:
        draft = Draft(
            request,
            Placement("v", p, 2),
            num_microbatches=count,
            limit=2 * limit,
            weight_memory=weight_memory,
        )
        try:
            return _run(draft, reading, _lay_out(request, reading, count), by_makespan)
        except StuckError:
            return None

    tried = [(run(reading, few), reading) for reading in readings]
    good = [(found, reading) for found, reading in tried if found is not None]
    good.sort(key=lambda pair: pair[0].score)
    if few < m:
        finals = (run(reading, m) for _, reading in good[:NUM_FINALISTS])
        good = [
            (found, reading) for found, (_, reading) in zip(finals, good, strict=False) if found
        ]
    if not good:
        raise ScheduleError(
            f"no order on {p} stages in a V keeps within {limit:g} microbatches of activations; "
            f"choose memory_limit={(p + 4) // 3} or more"
        )
    return min((found for found, _ in good), key=lambda found: found.score)


def _lay_out(request: Request, reading: _Reading, count: int) -> list[list[Step]]:
    """Return each rank's F and B in the order of the pattern's start times."""
    times = request.times if reading.own_times else Times()
    f, b, w, comm = times.f / 2, times.b / 2, times.w / 2, times.comm
    down, up = range(request.num_ranks), range(request.num_ranks - 1, -1, -1)
    passes = (("F", 0, down, f), ("F", 1, up, f), ("B", 1, down, b), ("B", 0, up, b))
    starts: list[list[tuple[float, Step]]] = [[] for _ in down]
    now = 0.0
    for (kind, chunk, ranks, cost), slack in zip(passes, reading.slack, strict=True):
        hop = comm + slack * (f + b + w) / 3
        for rank in ranks:
            starts[rank].append((now, (kind, chunk)))
            now += cost + hop
        now -= hop
    period = 2 * (f + b + w)
    return [
        [
            step
            for *_, step in sorted(
                (round(at + i * period, 9), i, step) for at, step in row for i in range(count)
            )
        ]
        for row in starts
    ]


class _Runner:
    """Ranks running their rows as early as they can, always the one that starts first."""

    def __init__(self, draft: Draft, reading: _Reading, rows: list[list[Step]]) -> None:
        self.draft, self.rows = draft, rows
        self.later = reading.gaps != "W"
        self.weights_first = reading.gaps != "later first"
        self.at = [0] * len(rows)
        self.heap: list[tuple[float, int]] = []
        self.waiting: dict[tuple[str, int, int], int] = {}

    def schedule(self, rank: int) -> None:
        """Note when the rank's next action can start, or what it waits for."""
        if self.at[rank] == len(self.rows[rank]):
            return
        kind, chunk = self.rows[rank][self.at[rank]]
        ready = self.draft.ready(rank, kind, chunk)
        if ready is None:
            self.waiting[self._producer(rank, kind, chunk)] = rank
        else:
            heappush(self.heap, (max(ready, self.draft.time[rank]), rank))

    def _producer(self, rank: int, kind: str, chunk: int) -> tuple[str, int, int]:
        placement = self.draft.placement
        at = placement.previous(rank, chunk) if kind == "F" else placement.next(rank, chunk)
        return ("F", chunk, rank) if at is None else (kind, at[1], at[0])

    def run(self) -> None:
        """Run everything; raise `StuckError` if memory does not let it."""
        for rank in range(len(self.rows)):
            self.schedule(rank)
        while self.heap:
            self._step(heappop(self.heap)[1])
        if any(at < len(row) for at, row in zip(self.at, self.rows, strict=True)):
            raise StuckError

    def _step(self, rank: int) -> None:
        draft = self.draft
        kind, chunk = self.rows[rank][self.at[rank]]
        ready = draft.ready(rank, kind, chunk)
        assert ready is not None
        if kind == "F":
            draft.make_room(rank)
        while ready > draft.time[rank] + draft.eps and self._fill(rank, ready):
            pass
        self._put(rank, kind, chunk, ready)
        self.at[rank] += 1
        self.schedule(rank)

    def _put(self, rank: int, kind: str, chunk: int, ready: float) -> None:
        self.draft.put(rank, kind, chunk, ready)
        waiter = self.waiting.pop((kind, chunk, rank), None)
        if waiter is not None and waiter != rank:
            self.schedule(waiter)

    def _fill(self, rank: int, ready: float) -> bool:
        """Put one action into the gap before ``ready``; False if there is none to put."""
        draft = self.draft
        gap, w = ready - draft.time[rank], draft.cost["W"]
        fits = bool(draft.owed[rank]) and w <= gap + draft.eps
        skip = not self.later or (self.weights_first and fits)
        later = None if skip else self._later(rank, ready)
        if later is not None:
            index, at = later
            self._put(rank, *self.rows[rank].pop(index), at)
        elif fits or (draft.owed[rank] and not self.weights_first and gap >= w / 2):
            draft.put_weight(rank)
        else:
            return False
        return True

    def _later(self, rank: int, ready: float) -> tuple[int, float] | None:
        """Return (index, input's arrival) of a later F or B that fits before ``ready``."""
        draft, row, first = self.draft, self.rows[rank], self.at[rank]
        seen = {row[first]}
        held = most = draft.held[rank] + (1 if row[first][0] == "F" else -1)
        for index in range(first + 1, min(first + 1 + LOOK_AHEAD, len(row))):
            kind, chunk = step = row[index]
            if step not in seen:
                seen.add(step)
                roomy = kind == "B" or max(draft.held[rank], most) + 1.0 <= draft.limit
                arrival = draft.ready(rank, kind, chunk) if roomy else None
                if arrival is not None:
                    end = max(arrival, draft.time[rank]) + draft.cost[kind]
                    if end <= ready + draft.eps:
                        return index, arrival
            held += 1 if kind == "F" else -1
            most = max(most, held)
        return None


def _run(draft: Draft, reading: _Reading, rows: list[list[Step]], by_makespan: bool) -> Found:
    _Runner(draft, reading, rows).run()
    return draft.finish(by_makespan)
