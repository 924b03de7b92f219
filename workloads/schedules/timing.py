"""Exact times of a schedule: every action as early as its rank's order and its inputs allow.

Rules (n stages): F(s,i) after F(s-1,i); B or BW(s,i) after F(s,i) and after that of stage s+1;
W(s,i) after B(s,i). A hop between ranks adds ``comm``, within a rank nothing. An overlapped pair
starts when both inputs are there and ends once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sim.errors import ScheduleError
from workloads.schedules.action import Entry, Orders, Token, format_entry
from workloads.schedules.kind import Times
from workloads.schedules.placement import Placement

Row = tuple[float, ...]
_BACKWARD = ("B", "BW")


@dataclass(frozen=True)
class ScheduleTimes:
    """When every entry of every rank starts and ends, and what follows from it."""

    orders: Orders
    placement: Placement
    starts: tuple[Row, ...]
    ends: tuple[Row, ...]

    @cached_property
    def makespan(self) -> float:
        """Time from the first start to the last end over all ranks."""
        return max((row[-1] for row in self.ends if row), default=0.0)

    @cached_property
    def busy(self) -> Row:
        """Working time of every rank."""
        pairs = zip(self.starts, self.ends, strict=True)
        return tuple(sum(e - s for s, e in zip(a, b, strict=True)) for a, b in pairs)

    @cached_property
    def spans(self) -> Row:
        """Last end minus first start of every rank."""
        return tuple(b[-1] - a[0] for a, b in zip(self.starts, self.ends, strict=True))

    @property
    def span(self) -> float:
        """The longest of the ranks' spans: the step with an optimizer step of each rank's own."""
        return max(self.spans)

    @property
    def makespan_bubble(self) -> float:
        """Makespan minus the busy time of the least busy rank."""
        return self.makespan - min(self.busy)

    @property
    def span_bubble(self) -> float:
        """The largest of span minus busy time over the ranks."""
        return max(s - b for s, b in zip(self.spans, self.busy, strict=True))

    @property
    def bubble_fraction(self) -> float:
        """Idle share of all ranks' makespan."""
        return 1.0 - sum(self.busy) / (len(self.busy) * self.makespan)

    @cached_property
    def bubbles(self) -> tuple[dict[str, float], ...]:
        """Idle time of every rank as ``warmup``, ``steady``, ``drain``; they sum to its idle time.

        Warm-up lasts until the rank's first backward starts, drain begins when its last forward has
        ended (or the warm-up, if that is later).
        """
        return tuple(self._bubbles(rank) for rank in range(len(self.orders)))

    def _bubbles(self, rank: int) -> dict[str, float]:
        starts, ends, order = self.starts[rank], self.ends[rank], self.orders[rank]
        backward = (i for i, entry in enumerate(order) if any(t.kind != "F" for t in entry))
        forward = (i for i, entry in enumerate(order) if any(t.kind == "F" for t in entry))
        first = starts[next(backward)]
        last = max(first, ends[max(forward)])
        idle = {"warmup": 0.0, "steady": 0.0, "drain": 0.0}
        before = 0.0
        for start, end in zip((*starts, self.makespan), (*ends, self.makespan), strict=True):
            phase = "warmup" if start <= first else "steady" if start < last else "drain"
            idle[phase] += start - before
            before = end
        return idle

    @cached_property
    def peak_activations(self) -> Row:
        """Most activations each rank holds, released at B or BW, in microbatches of its share."""
        return _peaks(self.orders, self.placement, _BACKWARD)

    @cached_property
    def peak_activations_w(self) -> Row:
        """The same, held until W (or BW)."""
        return _peaks(self.orders, self.placement, ("W", "BW"))


def _peaks(orders: Orders, placement: Placement, release: tuple[str, ...]) -> Row:
    peaks = []
    for order in orders:
        held = peak = 0
        for entry in order:
            held += sum(token.kind == "F" for token in entry)
            peak = max(peak, held)
            held -= sum(token.kind in release for token in entry)
        peaks.append(peak * placement.share)
    return tuple(peaks)


def time_orders(
    orders: Orders,
    placement: Placement,
    times: Times,
    *,
    stage_scales: Sequence[float] = (),
) -> ScheduleTimes:
    """Return when everything runs; raise `ScheduleError` if the orders wait for each other.

    ``stage_scales`` multiplies the durations of each stage (uneven layers, the head); empty: all 1.
    """
    if stage_scales and len(stage_scales) != placement.num_stages:
        raise ScheduleError(
            f"{len(stage_scales)} stage scales for {placement.num_stages} stages; give one a stage"
        )
    costs = _costs(placement, times, stage_scales)
    play = _Play(orders, placement, costs, times.comm)
    waits = play.run()
    if waits:
        raise ScheduleError(f"deadlock: {describe(orders, waits)}")
    return ScheduleTimes(
        orders, placement, tuple(map(tuple, play.starts)), tuple(map(tuple, play.ends))
    )


def _costs(
    placement: Placement, times: Times, scales: Sequence[float]
) -> list[list[dict[str, float]]]:
    """Return [rank][chunk][kind] -> duration."""
    base = {"F": times.f, "B": times.b, "W": times.w, "BW": times.b + times.w, "pair": times.pair}

    def scale(rank: int, chunk: int) -> float:
        return placement.share * (scales[placement.stage(rank, chunk)] if scales else 1.0)

    return [
        [{k: t * scale(rank, chunk) for k, t in base.items()} for chunk in range(placement.chunks)]
        for rank in range(placement.num_ranks)
    ]


Key = tuple[int, int, int, bool]
"""(rank, chunk, microbatch, backward): what a token gives to others when it ends."""


class Wait(NamedTuple):
    """A rank stopped at a slot, for an action (``F1.2``, ``B0.3``) of another rank."""

    rank: int
    slot: int
    source: int
    action: str


def deadlock(orders: Orders, placement: Placement) -> list[Wait]:
    """Return which ranks would wait forever, at which slot and for what; empty if all end."""
    return _Play(orders, placement, _costs(placement, Times(), ()), 0.0).run()


def describe(orders: Orders, waits: Sequence[Wait]) -> str:
    """Return who waits for what, in words."""
    parts = [
        f"rank {w.rank} at {format_entry(orders[w.rank][w.slot])} waits for {w.action} of rank "
        f"{w.source}"
        for w in waits[:4]
    ]
    return "; ".join(parts) + ("; ..." if len(waits) > 4 else "")


def _name(key: Key) -> str:
    return f"{'B' if key[3] else 'F'}{key[1]}.{key[2]}"


class _Play:
    """Ranks running their orders; a rank that waits is woken by the output it waits for."""

    def __init__(
        self,
        orders: Orders,
        placement: Placement,
        costs: list[list[dict[str, float]]],
        comm: float,
    ) -> None:
        self.orders, self.costs, self.comm = orders, costs, comm
        self.starts: list[list[float]] = [[] for _ in orders]
        self.ends: list[list[float]] = [[] for _ in orders]
        self._done: dict[Key, float] = {}
        self._waiting: dict[Key, int] = {}
        ranks, chunks = range(len(orders)), range(placement.chunks)
        self._before = [[placement.previous(r, c) for c in chunks] for r in ranks]
        self._after = [[placement.next(r, c) for c in chunks] for r in ranks]

    def run(self) -> list[Wait]:
        """Run as far as possible; return who is left waiting, and for what."""
        ready = list(range(len(self.orders)))
        while ready:
            ready += self._advance(ready.pop())
        return [
            Wait(rank, len(self.ends[rank]), key[0], _name(key))
            for key, rank in sorted(self._waiting.items(), key=lambda item: item[1])
        ]

    def _advance(self, rank: int) -> list[int]:
        """Run a rank until it waits or ends; return the ranks that it woke."""
        order, starts, ends = self.orders[rank], self.starts[rank], self.ends[rank]
        woken: list[int] = []
        while len(ends) < len(order):
            entry = order[len(ends)]
            start = self._start(rank, entry, ends[-1] if ends else 0.0)
            if start is None:
                break
            end = start + self._duration(rank, entry)
            starts.append(start)
            ends.append(end)
            for kind, chunk, microbatch in entry:
                if kind != "W":
                    key = (rank, chunk, microbatch, kind != "F")
                    self._done[key] = end
                    waiter = self._waiting.pop(key, None)
                    if waiter is not None:
                        woken.append(waiter)
        return woken

    def _start(self, rank: int, entry: Entry, free: float) -> float | None:
        """Return when an entry starts, or None after noting which output it waits for."""
        start = free
        for token in entry:
            for key in self._inputs(rank, token):
                done = self._done.get(key)
                if done is None:
                    self._waiting[key] = rank
                    return None
                arrival = done if key[0] == rank else done + self.comm
                start = max(start, arrival)
        return start

    def _inputs(self, rank: int, token: Token) -> tuple[Key, ...]:
        kind, chunk, microbatch = token
        if kind == "F":
            source = self._before[rank][chunk]
            return () if source is None else ((*source, microbatch, False),)
        if kind == "W":
            return ((rank, chunk, microbatch, True),)
        source = self._after[rank][chunk]
        own = (rank, chunk, microbatch, False)
        return (own,) if source is None else (own, (*source, microbatch, True))

    def _duration(self, rank: int, entry: Entry) -> float:
        costs = self.costs[rank]
        if len(entry) == 1:
            return costs[entry[0].chunk][entry[0].kind]
        return sum(costs[token.chunk]["pair"] for token in entry) / len(entry)
