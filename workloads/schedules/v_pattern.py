"""Orders on a V from a repeated pattern: the building blocks of V-Half and V-Min (arXiv:2405.15362).

One microbatch goes down (F0) and up (F1) the V and back (B1, B0), with a slack at every rank on
each of the four passes; the next follows 2(F+B+W)/v later, when every rank has worked once. How
long an activation lives, so how many are held, follows from the slacks. The pattern's order is then
run as early as possible: W and later actions of the pattern fill a rank's gaps where memory allows.
"""

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import product

from sim.errors import ScheduleError
from workloads.schedules.draft import EPSILON, Draft, Found, StuckError
from workloads.schedules.kind import Request, Times
from workloads.schedules.placement import Placement
from workloads.schedules.timing import time_orders

Step = tuple[str, int]
"""(kind, chunk) of an action."""

Slacks = tuple[tuple[int, int, int, int], tuple[int, int, int]]
SLACKS: tuple[Slacks, ...] = (
    ((0, 0, 0, 0), (0, 0, 0)),
    ((1, 0, 1, 0), (0, 0, 0)),
    ((1, 0, 1, 0), (1, 3, 0)),
    ((1, 0, 1, 0), (0, 3, 1)),
    ((1, 0, 1, 0), (3, 3, 3)),
    ((0, 0, 1, 0), (0, 0, 0)),
    ((1, 1, 2, 2), (0, 0, 0)),
    ((0, 1, 1, 2), (0, 0, 0)),
)
"""Slack at every rank on the passes F0, F1, B1, B0, and at the turns between them, in mean action
times."""
GAPS = ("later first", "W first", "W", "laid out")
LOOK_AHEAD = 12
"""How many entries of the pattern ahead a gap may be filled from."""
NUM_FINALISTS = 3
"""Patterns run in full at least; more where they have few actions, up to `FINAL_ACTIONS` in all."""
FINAL_ACTIONS = 12_000
MANY_RANKS = 16
"""Above this, fewer readings are tried, to stay within seconds."""


@dataclass(frozen=True, slots=True)
class _Reading:
    slack: tuple[int, int, int, int]
    turn: tuple[int, int, int]
    layout: Times
    """Times that the pattern is laid out with."""
    filling: Times
    """Times that its gaps are filled for; the orders are always judged by the times asked for."""
    gaps: str
    """A gap takes ``W`` alone, ``W first`` before a later F or B, or ``later first``, which also
    puts a W into a gap of half its length. ``laid out``: as that, and the pattern has the W too, of
    chunk 1 after its B, of chunk 0 where the pattern leaves a slot."""


def search_pattern(
    request: Request, *, limit: float, weight_memory: float = 1.0, by_makespan: bool = False
) -> Found:
    """Return the best orders under ``limit`` microbatches of activations.

    Patterns are compared on the first microbatches, the best few in full. Raises `ScheduleError` if
    nothing fits the limit.
    """
    p, m = request.num_ranks, request.num_microbatches

    def run(reading: _Reading, count: int) -> Draft | None:
        draft = Draft(
            replace(request, times=reading.filling),
            Placement("v", p, 2),
            num_microbatches=count,
            limit=2 * limit,
            weight_memory=weight_memory,
        )
        try:
            _Runner(draft, reading, _lay_out(reading.layout, reading, p, count)).run()
        except StuckError:
            return None
        return draft

    few = min(m, 2 * p + 1)
    tried = [(reading, run(reading, few)) for reading in _readings(request.times, p)]
    good = [(_forecast(draft, request.times, m), r) for r, draft in tried if draft is not None]
    good.sort(key=lambda pair: pair[0])
    num_finals = max(NUM_FINALISTS, FINAL_ACTIONS // (6 * p * m))
    finals = (run(reading, m) for _, reading in good[:num_finals])
    found = [_judge(draft, request.times, by_makespan) for draft in finals if draft is not None]
    if not found:
        raise ScheduleError(
            f"no order on {p} stages in a V keeps within {limit:g} microbatches of activations; "
            f"choose memory_limit={(p + 4) // 3} or more"
        )
    return min(found, key=lambda each: each.score)


def _readings(own: Times, p: int) -> list[_Reading]:
    unit = Times()
    pairs: tuple[tuple[Times, Times], ...] = ((own, own), (unit, unit), (unit, own))
    if own.f == own.b == own.w and own.comm == 0:
        pairs = pairs[:1]
    elif p > MANY_RANKS:
        pairs = pairs[:2]
    return [_Reading(*slacks, *times, gaps) for slacks, times, gaps in product(SLACKS, pairs, GAPS)]


def _judge(draft: Draft, times: Times, by_makespan: bool) -> Found:
    """Return the draft's orders with their score under ``times``."""
    found = draft.finish(by_makespan)
    if draft.times == times:
        return found
    played = time_orders(found.orders, draft.placement, times)
    first, second = played.span, played.makespan
    if by_makespan:
        first, second = second, first
    ideal = draft.num_microbatches * (times.f + times.b + times.w)
    return Found((round(first / ideal, 9), round(second / ideal, 9), found.score[2]), found.orders)


def _forecast(draft: Draft, times: Times, m: int) -> float:
    """Return the makespan of m microbatches, from the first few and the pace in their middle."""
    orders = draft.finish().orders
    played = time_orders(orders, draft.placement, times)
    ends = [
        end for entry, end in zip(orders[0], played.ends[0], strict=True) if entry[0].kind == "B"
    ]
    first, last = len(ends) // 3, 2 * len(ends) // 3
    pace = 2 * (ends[last] - ends[first]) / (last - first) if last > first else 0.0
    return played.makespan + (m - draft.num_microbatches) * pace


def _lay_out(times: Times, reading: _Reading, p: int, count: int) -> list[list[Step]]:
    """Return each rank's F and B in the order of the pattern's start times."""
    f, b, w, comm = times.f / 2, times.b / 2, times.w / 2, times.comm
    down, up = range(p), range(p - 1, -1, -1)
    passes = (("F", 0, down, f), ("F", 1, up, f), ("B", 1, down, b), ("B", 0, up, b))
    starts: list[list[tuple[float, Step]]] = [[] for _ in down]
    now = 0.0
    unit = (f + b + w) / 3
    for (kind, chunk, ranks, cost), slack, turn in zip(
        passes, reading.slack, (*reading.turn, 0), strict=True
    ):
        hop = comm + slack * unit
        for rank in ranks:
            starts[rank].append((now, (kind, chunk)))
            now += cost + hop
        now += turn * unit - hop
    period = 2 * (f + b + w)
    if reading.gaps == "laid out":
        costs = {"F": f, "B": b, "W": w}
        for row in starts:
            _lay_out_weights(row, costs, period)
    return [
        [
            step
            for *_, step in sorted(
                (round(at + i * period, 9), i, step) for at, step in row for i in range(count)
            )
        ]
        for row in starts
    ]


def _lay_out_weights(row: list[tuple[float, Step]], costs: dict[str, float], period: float) -> None:
    """Add W of both chunks to one microbatch's row: after its B, or the next slot that is free."""
    for chunk in (1, 0):
        at = next(start for start, step in row if step == ("B", chunk)) + costs["B"]
        ends = (start + costs[step[0]] for start, step in row)
        after = sorted((at, *(at + (end - at) % period for end in ends)))
        clear = (t for t in after if not _overlaps(t, row, costs, period))
        row.append((next(clear, at), ("W", chunk)))


def _overlaps(
    at: float, row: list[tuple[float, Step]], costs: dict[str, float], period: float
) -> bool:
    """Return whether a W from ``at`` meets an action of the row, of any microbatch."""
    slack = EPSILON * period
    return any(
        (start - at) % period < costs["W"] - slack or (at - start) % period < costs[kind] - slack
        for start, (kind, _) in row
    )


class _Runner:
    """Ranks running their rows as early as they can, always the one that starts first."""

    def __init__(self, draft: Draft, reading: _Reading, rows: list[list[Step]]) -> None:
        self.draft, self.rows = draft, rows
        self.later = reading.gaps != "W"
        self.weights_first = reading.gaps == "W first"
        self.laid_out = reading.gaps == "laid out"
        self.gain = draft.gain if self.laid_out else {"F": 1.0, "B": -1.0}
        self.at = [0] * len(rows)
        self.heap: list[tuple[float, int]] = []
        self.waiting: dict[tuple[str, int, int], int] = {}

    def schedule(self, rank: int) -> None:
        """Note when the rank's next action can start, or what it waits for."""
        if self.at[rank] == len(self.rows[rank]):
            return
        kind, chunk = self.rows[rank][self.at[rank]]
        ready = self._ready(rank, kind, chunk)
        if ready is None:
            self.waiting[self._producer(rank, kind, chunk)] = rank
        else:
            heappush(self.heap, (max(ready, self.draft.time[rank]), rank))

    def _ready(self, rank: int, kind: str, chunk: int) -> float | None:
        if kind == "W":
            return 0.0
        return self.draft.ready(rank, kind, chunk)

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
        ready = self._ready(rank, kind, chunk)
        assert ready is not None
        if kind == "F":
            draft.make_room(rank)
        while ready > draft.time[rank] + draft.eps and self._fill(rank, ready):
            pass
        self._put(rank, kind, chunk, ready)
        self.at[rank] += 1
        self.schedule(rank)

    def _put(self, rank: int, kind: str, chunk: int, ready: float) -> None:
        if kind == "W":
            if chunk not in self.draft.owed[rank]:
                return  # done before, to make room or to fill a gap
            self.draft.owed[rank].remove(chunk)
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
        held = most = draft.held[rank] + self.gain[row[first][0]]
        for index in range(first + 1, min(first + 1 + LOOK_AHEAD, len(row))):
            kind, chunk = step = row[index]
            if step not in seen and kind != "W":
                seen.add(step)
                roomy = kind != "F" or max(draft.held[rank], most) + 1.0 <= draft.limit
                arrival = self._ready(rank, kind, chunk) if roomy else None
                if arrival is not None:
                    end = max(arrival, draft.time[rank]) + draft.cost[kind]
                    if end <= ready + draft.eps:
                        return index, arrival
            held += self.gain[kind]
            most = max(most, held)
        return None
