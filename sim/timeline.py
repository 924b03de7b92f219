"""Timeline: what happened, as data: spans of every stream of every rank class, on one clock."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sim.cluster import Cluster
from sim.fold import Folding
from sim.program import (
    Action,
    Allocate,
    Collective,
    Compute,
    Free,
    Merged,
    Op,
    Program,
    Recv,
    Send,
)
from sim.steps import Step

if TYPE_CHECKING:
    import pandas as pd

Cause = tuple[int, int]
"""What a stream waited for: (stream index, span index), or `HOST`."""
HOST: Cause = (-1, -1)
RawSpan = tuple[Op, Action, float, float, float]
"""(op, action, posted, start, end): a collective or receive is posted before it starts."""
Gap = tuple[float, float, Cause]


class Span(NamedTuple):
    """One op of one rank class: what, as part of which action, when (s)."""

    op: Op
    action: Action
    posted: float
    start: float
    end: float


@dataclass(slots=True, eq=False, kw_only=True)
class StreamRecord:
    """What one stream of one rank class did.

    ``gaps``: waits for a semaphore (or the host) and their cause; ``memory``: (time, category, bytes taken).
    ``state`` is what it waits for while the simulation runs.
    """

    index: int
    rank_class: int
    name: str
    computes: bool
    spans: list[RawSpan] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    memory: list[tuple[float, str, float]] = field(default_factory=list)
    end: float = 0.0
    state: Any = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Timeline:
    """The result of a replay; every metric is a function of it.

    ``communications`` are the distinct communication steps and how often each was played (for link traffic);
    ``kernel_seconds`` what a kernel takes alone, by (device kind, id of the op);
    ``slower``: how much longer kernels of the slowest rank take than the mean (`sim.jitter`); ``assumptions``: what the
    replay itself assumed (those of program and cluster are theirs).
    """

    program: Program
    cluster: Cluster
    device_of: np.ndarray
    folding: Folding
    streams: list[StreamRecord]
    communications: list[Step]
    kernel_seconds: Mapping[tuple[int, int], float]
    step_time: float
    num_events: int
    slower: float = 1.0
    assumptions: tuple[str, ...] = ()

    @property
    def num_spans(self) -> int:
        """How many spans were recorded."""
        return sum(
            sum(1 for o in op.ops if not isinstance(o, Allocate | Free))
            if isinstance(op, Merged)
            else 1
            for stream in self.streams
            for op, *_ in stream.spans
        )

    @property
    def num_classes(self) -> int:
        """How many rank classes were played."""
        return self.folding.num_classes

    @cached_property
    def streams_of(self) -> list[list[StreamRecord]]:
        """Streams of each rank class."""
        found: list[list[StreamRecord]] = [[] for _ in range(self.num_classes)]
        for stream in self.streams:
            found[stream.rank_class].append(stream)
        return found

    def place(self, rank_class: int) -> int:
        """Place in the pipeline of a rank class."""
        rank = self.folding.representative[rank_class]
        return self.program.scripts[int(self.program.script_of_rank[rank])].place

    def device_kind(self, rank_class: int) -> int:
        """Index of the device kind a rank class runs on."""
        return int(
            self.cluster.device_kind[self.device_of[self.folding.representative[rank_class]]]
        )

    def class_of_rank(self, rank: int) -> int:
        """Rank class of a rank."""
        return int(self.folding.rank_class[rank])

    def spans(self, rank_class: int, stream: str | None = None) -> Iterator[Span]:
        """Spans of a rank class, stream by stream (of one stream, if named)."""
        for record in self.streams_of[rank_class]:
            if stream is None or record.name == stream:
                yield from each_span(record)

    def frame(self) -> "pd.DataFrame":
        """Return all spans as a table, one row a span (times in s)."""
        import pandas as pd  # lazily: half a second that most commands do not need

        rows = []
        for stream in self.streams:
            rank = int(self.folding.representative[stream.rank_class])
            for op, action, posted, start, end in each_span(stream):
                rows.append(
                    (stream.rank_class, rank, self.place(stream.rank_class), stream.name, *describe(op), *action,
                     posted, start, end)
                )  # fmt: skip
        return pd.DataFrame(rows, columns=COLUMNS)


def each_span(record: StreamRecord) -> Iterator[Span]:
    """Yield the spans of a stream; the ops of a chain one by one, stretched alike where it was slowed."""
    for op, action, posted, start, end in record.spans:
        if not isinstance(op, Merged):
            yield Span(op, action, posted, start, end)
            continue
        total = sum(op.alone)
        stretch = (end - start) / total if total else 1.0
        now = start
        for part, alone in zip(op.ops, op.alone, strict=True):
            if not isinstance(part, Allocate | Free):
                yield Span(part, action, now, now, now + alone * stretch)
                now += alone * stretch


COLUMNS = [
    "rank_class", "rank", "place", "stream", "name", "op", "axis", "phase", "nbytes", "flops", "action", "stage",
    "chunk", "microbatch", "posted", "start", "end",
]  # fmt: skip


def describe(op: Op) -> tuple[str, str, str, str, float, float]:
    """Return (name, op kind, axis, phase, bytes, FLOPs) of an op."""
    match op:
        case Compute():
            return op.name, "compute", "", op.phase, op.kernel.nbytes, op.kernel.flops
        case Collective():
            return op.name, op.kind, op.axis, op.phase, op.nbytes, 0.0
        case Send():
            return op.name, "send", op.channel, op.phase, op.nbytes, 0.0
        case Recv():
            return op.name, "recv", op.channel, op.phase, op.nbytes, 0.0
        case _:
            return type(op).__name__.lower(), "memory", "", "", 0.0, 0.0
