"""Ledger: where each rank's step went, by cause; the causes sum to the step time.

The stream that computes is cut at its spans. A kernel's time is useful compute (``compute``),
``recompute`` or ``optimizer``; what it took longer than alone, because communication held SMs or
memory bandwidth, is ``overlap_slowdown``. Idle time belongs to what the next op waited for: a
transfer in flight is ``exposed.<axis>``; a peer of the pipeline that has not sent yet is a bubble
(``bubble.warmup`` before the rank's first backward, ``bubble.drain`` after its last forward,
``bubble.steady`` between); a member of a group that has not arrived is ``wait.<axis>``; the host
that has not launched yet is ``launch``. After its last op a rank waits for the step's end:
``bubble.drain`` in a pipeline, else ``wait.end``.

A rank may compute on several streams (an overlapped pair). Where the first of them communicates or waits while another
computes, the time is that computation's; where kernels share the device, each has its half.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from sim.program import Collective, Compute, Merged, Op, Recv, Send
from sim.timeline import HOST, Cause, StreamRecord, Timeline

Ledger = Mapping[str, float]

PHASE_CAUSE = {"R": "recompute", "O": "optimizer"}
BACKWARD = frozenset({"B", "BW", "W", "F&B"})


def class_ledger(timeline: Timeline, rank_class: int) -> dict[str, float]:
    """Seconds by cause of one rank class; they sum to ``timeline.step_time``."""
    return _Walk(timeline, rank_class).ledger()


def ledgers(timeline: Timeline) -> list[dict[str, float]]:
    """Seconds by cause of every rank class."""
    return [class_ledger(timeline, c) for c in range(timeline.num_classes)]


def mean_ledger(timeline: Timeline, parts: list[dict[str, float]]) -> dict[str, float]:
    """Mean over all ranks of the ledgers of `ledgers`."""
    return _weighted(parts, timeline.folding.size)


def stage_ledgers(timeline: Timeline, parts: list[dict[str, float]]) -> list[dict[str, float]]:
    """Mean ledger of the ranks at each place of the pipeline."""
    places = np.array([timeline.place(c) for c in range(timeline.num_classes)])
    return [
        _weighted(
            [parts[c] for c in np.flatnonzero(places == p)], timeline.folding.size[places == p]
        )
        for p in np.unique(places)
    ]


def _weighted(parts: list[dict[str, float]], weights: np.ndarray) -> dict[str, float]:
    total = float(weights.sum())
    mean: dict[str, float] = defaultdict(float)
    for part, weight in zip(parts, weights, strict=True):
        for cause, seconds in part.items():
            mean[cause] += seconds * float(weight) / total
    return dict(sorted(mean.items()))


class _Beside:
    """Kernels of the streams that compute beside the first, by time."""

    def __init__(self, streams: list[StreamRecord]) -> None:
        spans = [
            (s[3], s[4], s[0])
            for r in streams
            for s in r.spans
            if isinstance(s[0], Compute | Merged)
        ]
        self.spans = sorted(spans, key=lambda span: span[0])
        self.ends = [end for _, end, _ in self.spans]

    def within(self, since: float, until: float) -> Iterator[tuple[float, float, Op]]:
        """Yield (start, end, op) of what runs in an interval, cut to it."""
        index = bisect_right(self.ends, since)
        while index < len(self.spans) and self.spans[index][0] < until:
            start, end, op = self.spans[index]
            yield max(start, since), min(end, until), op
            index += 1


class _Walk:
    """One rank class's streams, walked along the one that computes."""

    def __init__(self, timeline: Timeline, rank_class: int) -> None:
        self.timeline = timeline
        self.rank_class = rank_class
        self.streams = timeline.streams
        self.own = timeline.streams_of[rank_class]
        self.causes: dict[str, float] = defaultdict(float)
        self.chains: dict[int, dict[str, float]] = {}
        self.reach: dict[str, bool] = {}
        computing = [stream for stream in self.own if stream.computes]
        self.main = computing[0] if computing else self.own[0]
        self.beside = _Beside(computing[1:]) if len(computing) > 1 else None
        self.kind = timeline.device_kind(rank_class)
        self.first_backward, self.last_forward = self._pipeline_marks()
        self.pipelined = any(
            isinstance(s[0], Recv) for stream in self.own for s in stream.spans[:1]
        )

    def _pipeline_marks(self) -> tuple[float, float]:
        spans = self.main.spans
        backward = [s[3] for s in spans if s[1].kind in BACKWARD]
        forward = [s[4] for s in spans if s[1].kind in ("F", "F&B")]
        return min(backward, default=np.inf), max(forward, default=-np.inf)

    def ledger(self) -> dict[str, float]:
        gaps = iter(self.main.gaps)
        gap = next(gaps, None)
        now = 0.0
        for op, _, posted, start, end in self.main.spans:
            while gap is not None and gap[1] <= posted:
                for since, until in self._uncovered(now, gap[0]):
                    self._idle(since, until, None)
                for since, until in self._uncovered(max(now, gap[0]), gap[1]):
                    self._idle(since, until, gap[2])
                now = max(now, gap[1])
                gap = next(gaps, None)
            for since, until in self._uncovered(now, posted):
                self._idle(since, until, None)
            for since, until in self._uncovered(posted, start):
                self._wait(op, since, until)
            if self.beside is None:
                self._busy(op, end - start)
            else:
                self._busy_beside(op, start, end)
            now = end
        self._tail(now)
        self._give_back()
        return {cause: seconds for cause, seconds in sorted(self.causes.items()) if seconds}

    def _uncovered(self, since: float, until: float) -> list[tuple[float, float]]:
        """Return the parts of an interval during which no other stream computes; book the rest as its work."""
        if until <= since:
            return []
        if self.beside is None:
            return [(since, until)]
        found, now = [], since
        for start, end, op in self.beside.within(since, until):
            if start > now:
                found.append((now, start))
            self._busy_elsewhere(op, max(end - max(now, start), 0.0))
            now = max(now, end)
        if until > now:
            found.append((now, until))
        return found

    def _busy_beside(self, op: Op, start: float, end: float) -> None:
        """Book an op of the first stream beside which others compute."""
        assert self.beside is not None
        if not isinstance(op, Compute | Merged):
            free = sum(until - since for since, until in self._uncovered(start, end))
            self.causes[f"exposed.{_axis(op)}"] += free
            return
        alone = (
            sum(op.alone)
            if isinstance(op, Merged)
            else self.timeline.kernel_seconds[self.kind, id(op)]
        )
        others = [(high - low, other) for low, high, other in self.beside.within(start, end)]
        shared = sum(seconds for seconds, _ in others) / 2.0
        lost = min(shared, max(end - start - alone, 0.0))
        for seconds, other in others:
            self._busy_elsewhere(other, seconds / 2.0 * (lost / shared))
        self._busy(op, end - start - lost)

    def _busy(self, op: Op, seconds: float) -> None:
        if isinstance(op, Merged):
            alone = sum(op.alone)
            slower = seconds - alone if seconds > alone * (1.0 + 1e-9) else 0.0
            for cause, part in self._causes_of(op).items():
                self.causes[cause] += part * (seconds - slower) / alone
            if slower:
                self.causes["overlap_slowdown"] += slower
        elif isinstance(op, Compute):
            alone = self.timeline.kernel_seconds[self.kind, id(op)]
            slower = seconds - alone if seconds > alone * (1.0 + 1e-9) else 0.0
            self.causes[PHASE_CAUSE.get(op.phase, "compute")] += seconds - slower
            if slower:
                self.causes["overlap_slowdown"] += slower
        else:
            self.causes[f"exposed.{_axis(op)}"] += seconds

    def _causes_of(self, op: Merged) -> dict[str, float]:
        """Seconds by cause of a chain that nothing slows."""
        found = self.chains.get(id(op))
        if found is None:
            found = self.chains[id(op)] = defaultdict(float)
            for part, seconds in zip(op.ops, op.alone, strict=True):
                if isinstance(part, Compute):
                    found[PHASE_CAUSE.get(part.phase, "compute")] += seconds
                elif seconds:
                    found[f"exposed.{_axis(part)}"] += seconds
        return found

    def _wait(self, op: Op, since: float, until: float) -> None:
        """Time between an op being posted and its transfer starting: somebody else is late."""
        if until <= since:
            return
        if isinstance(op, Recv | Send) or self._spans_pipeline(op):
            self._bubble(since, until)
        else:
            self.causes[f"wait.{_axis(op)}"] += until - since

    def _spans_pipeline(self, op: Op) -> bool:
        """Whether a collective's group reaches other places of the pipeline."""
        if not isinstance(op, Collective):
            return False
        if op.axis not in self.reach:
            group = self.timeline.folding.group_of[op.axis, self.rank_class]
            places = {self.timeline.place(member) for member in group.members}
            self.reach[op.axis] = len(places) > 1
        return self.reach[op.axis]

    def _bubble(self, since: float, until: float) -> None:
        """Split an interval at the first backward and after the last forward."""
        warm = min(until, max(since, self.first_backward))
        drain = max(warm, min(until, max(since, self.last_forward)))
        for cause, seconds in (
            ("bubble.warmup", warm - since),
            ("bubble.steady", drain - warm),
            ("bubble.drain", until - drain),
        ):
            if seconds > 0:
                self.causes[cause] += seconds

    def _idle(self, since: float, until: float, cause: Cause | None) -> None:
        """Explain idle time by what ended it."""
        if until <= since:
            return
        if cause is None or cause == HOST:
            self.causes["launch"] += until - since
        else:
            self._explain(self.streams[cause[0]], cause[1], since, until, 0)

    def _explain(
        self, stream: StreamRecord, last: int, since: float, until: float, depth: int
    ) -> None:
        """Walk a stream back from span ``last`` over [since, until): transfers, waits for peers, its own waits."""
        index = last
        while until > since and index >= 0:
            op, _, posted, start, end = stream.spans[index]
            if end < until:
                self._before(stream, index, max(since, end), until, depth)
                until = max(since, end)
            if until > max(start, since):
                self._busy_elsewhere(op, until - max(start, since))
                until = max(start, since)
            if until > max(posted, since):
                self._wait(op, max(posted, since), until)
                until = max(posted, since)
            index -= 1
        if until > since:
            self._before(stream, -1, since, until, depth)

    def _before(
        self, stream: StreamRecord, index: int, since: float, until: float, depth: int
    ) -> None:
        """Explain a pause of a stream (after span ``index``) by the causes of its own gaps."""
        if until <= since:
            return
        position = bisect_left(stream.gaps, since, key=lambda gap: gap[1])
        while position < len(stream.gaps) and since < until:
            start, end, cause = stream.gaps[position]
            if start >= until:
                break
            low, high = max(since, start), min(until, end)
            if cause == HOST or depth > 8:
                self.causes["launch"] += high - since
            else:
                if low > since:
                    self.causes["launch"] += low - since
                self._explain(self.streams[cause[0]], cause[1], low, high, depth + 1)
            since = high
            position += 1
        if since < until:
            self.causes["launch"] += until - since

    def _busy_elsewhere(self, op: Op, seconds: float) -> None:
        if isinstance(op, Merged):
            for cause, part in self._causes_of(op).items():
                self.causes[cause] += part / sum(op.alone) * seconds
        elif isinstance(op, Compute):
            self.causes[PHASE_CAUSE.get(op.phase, "compute")] += seconds
        else:
            self.causes[f"exposed.{_axis(op)}"] += seconds

    def _give_back(self) -> None:
        """The mean rank computes faster than the slowest, and waits for it the rest of the time."""
        share = 1.0 - 1.0 / self.timeline.slower
        for cause in ("compute", "recompute", "optimizer") if share else ():
            lost = self.causes[cause] * share
            self.causes[cause] -= lost
            self.causes["wait.slowest"] += lost

    def _tail(self, now: float) -> None:
        """After the last op: other streams of the rank, then everybody else."""
        end = self.timeline.step_time
        others = [s for s in self.own if s is not self.main and s.spans and s.spans[-1][4] > now]
        if others:
            last = max(others, key=lambda stream: stream.spans[-1][4])
            self._explain(last, len(last.spans) - 1, now, last.spans[-1][4], 0)
            now = last.spans[-1][4]
        if end > now:
            self.causes["bubble.drain" if self.pipelined else "wait.end"] += end - now


def _axis(op: Op) -> str:
    """Axis a communication op belongs to: a message's channel is named after it (``pp.forward``)."""
    if isinstance(op, Collective):
        return op.axis.split(".")[0]
    if isinstance(op, Send | Recv):
        return op.channel.split(".")[0]
    return "none"
