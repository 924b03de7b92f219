"""Draft: a schedule being searched, every rank with its clock, memory and weight gradients owed.

An action is put on a rank as early as the rank and its input allow. The searches (`zb_auto`,
`zb_v_greedy`, `v_pattern`) decide what to put; the draft keeps time and memory. Activations are
counted in chunks; B releases all but ``weight_memory`` of one, W the rest.
"""

from collections import deque
from dataclasses import dataclass

from workloads.schedules.action import Orders, Token
from workloads.schedules.kind import Request
from workloads.schedules.placement import Placement

EPSILON = 1e-9
"""Times this close (relative to one step of work) count as equal."""

Source = tuple[list[float], float]
"""The end times that an action waits for, by microbatch, and the hop it takes."""


class StuckError(Exception):
    """The rules lead nowhere: no room for a forward, or an input that never comes."""


@dataclass(frozen=True, slots=True)
class Found:
    """A finished draft and what it is judged by (least first)."""

    score: tuple[float, float, float]
    orders: Orders


class Draft:
    """Orders being written on a placement, under a memory limit in chunk activations."""

    def __init__(
        self,
        request: Request,
        placement: Placement,
        *,
        limit: float,
        weight_memory: float,
        num_microbatches: int = 0,
    ) -> None:
        p, times, share = placement.num_ranks, request.times, placement.share
        self.placement, self.times = placement, times
        self.num_microbatches = num_microbatches or request.num_microbatches
        self.limit = limit + EPSILON
        self.cost = {"F": times.f * share, "B": times.b * share, "W": times.w * share}
        self.gain = {"F": 1.0, "B": weight_memory - 1.0, "W": -weight_memory}
        self.ideal = self.num_microbatches * (times.f + times.b + times.w)
        self.eps = EPSILON * self.ideal
        self.time = [0.0] * p
        self.start = [0.0] * p
        self.held = [0.0] * p
        self.idle = [0.0] * p
        self.owed: list[deque[int]] = [deque() for _ in range(p)]
        chunks = range(placement.chunks)
        self.ends: dict[tuple[str, int], list[list[float]]] = {
            (kind, chunk): [[] for _ in range(p)] for kind in "FB" for chunk in chunks
        }
        self.count = {(kind, chunk): [0] * p for kind in "FBW" for chunk in chunks}
        self.sources = {key: self._sources(*key, times.comm) for key in self.ends}
        self.rows: list[list[tuple[Token]]] = [[] for _ in range(p)]

    def _sources(self, kind: str, chunk: int, comm: float) -> list[Source | None]:
        """Return, per rank, what a forward or backward of the chunk waits for."""
        sources: list[Source | None] = []
        for rank in range(self.placement.num_ranks):
            step = self.placement.previous if kind == "F" else self.placement.next
            at = step(rank, chunk)
            if at is not None:
                hop = 0.0 if at[0] == rank else comm
                sources.append((self.ends[kind, at[1]][at[0]], hop))
            elif kind == "B":
                sources.append((self.ends["F", chunk][rank], 0.0))
            else:
                sources.append(None)
        return sources

    def ready(self, rank: int, kind: str, chunk: int) -> float | None:
        """Return when the input of the next such action arrives; None if that is not known yet."""
        source = self.sources[kind, chunk][rank]
        if source is None:
            return 0.0
        i = self.count[kind, chunk][rank]
        return source[0][i] + source[1] if i < len(source[0]) else None

    def put(self, rank: int, kind: str, chunk: int, ready: float) -> None:
        """Run the next such action on the rank, not before ``ready``."""
        now, row = self.time[rank], self.rows[rank]
        begin = max(now, ready)
        if row:
            self.idle[rank] += begin - now
        else:
            self.start[rank] = begin
        end = begin + self.cost[kind]
        self.time[rank] = end
        counts = self.count[kind, chunk]
        row.append((Token(kind, chunk, counts[rank]),))
        counts[rank] += 1
        self.held[rank] += self.gain[kind]
        if kind != "W":
            self.ends[kind, chunk][rank].append(end)
        if kind == "B":
            self.owed[rank].append(chunk)

    def put_next(self, rank: int, kind: str, chunk: int) -> None:
        """Run the next such action, whose input must be known; raise `StuckError` if it is not."""
        ready = self.ready(rank, kind, chunk)
        if ready is None:
            raise StuckError
        self.put(rank, kind, chunk, ready)

    def put_weight(self, rank: int) -> None:
        """Run the oldest weight gradient owed."""
        self.put(rank, "W", self.owed[rank].popleft(), 0.0)

    def make_room(self, rank: int) -> None:
        """Run weight gradients until a forward fits the limit; raise `StuckError` if none does."""
        while self.held[rank] + 1.0 > self.limit:
            if not self.owed[rank]:
                raise StuckError
            self.put_weight(rank)

    def fill(self, rank: int, ready: float) -> None:
        """Run the weight gradients that fit before ``ready``."""
        while self.owed[rank] and self.time[rank] + self.cost["W"] <= ready + self.eps:
            self.put_weight(rank)

    def finish(self, by_makespan: bool = False) -> Found:
        """Run all weight gradients owed and return the orders with their score.

        The score is the longest span, the makespan (or these two the other way round) and the most
        activations held until W.
        """
        for rank, owed in enumerate(self.owed):
            while owed:
                self.put_weight(rank)
        span = max(end - begin for end, begin in zip(self.time, self.start, strict=True))
        first, second = round(span / self.ideal, 9), round(max(self.time) / self.ideal, 9)
        if by_makespan:
            first, second = second, first
        return Found((first, second, self._peak()), tuple(map(tuple, self.rows)))

    def _peak(self) -> float:
        """Return the most activations that a rank holds until W."""
        peak = 0
        for row in self.rows:
            held = 0
            for (token,) in row:
                held += 1 if token.kind == "F" else -1 if token.kind == "W" else 0
                peak = max(peak, held)
        return peak
