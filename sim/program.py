"""Program: what every rank does, stream by stream; shapes, FLOPs and bytes, never seconds.

A program has a few *scripts* and says which rank runs which. A script is a list of *segments* a stream; a segment is
the ops of one action (``F`` of chunk 1, microbatch 7). Ops are shared between segments, so a program of a
hundred thousand ranks and ten thousand actions is small.

Streams of a rank run side by side, each in order. They meet at *semaphores*: an op with ``signals=("x",)`` adds one to
``x`` when it ends, an op with ``waits=("x",)`` starts after taking one. (A CUDA event recorded and waited for.)
Semaphores are local to a rank; one stream alone may wait on a given semaphore.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sim.kernels.shapes import Kernel


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """A kernel on the rank's device. ``phase``: F, B, W, R (recompute), O (optimizer).

    ``launches``: pieces it comes in; ``host_work``: what the host does for it beside, in launches. ``starts``:
    semaphores it signals when it starts (what may run beside it).
    """

    name: str
    kernel: Kernel
    phase: str = "F"
    launches: int = 1
    waits: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    host_work: float = 0.0


class Spread(NamedTuple):
    """How the items of an all-to-all spread over the members.

    ``fanout`` > 0: each item goes to that many members at once (an expert-parallel kernel then crosses to a scale-up
    domain once, however many members there want it), ``limit`` < 1: within at most that share of the domains.
    ``shares`` (group size,): what part of all bytes each member takes (empty: equal), ``back``: sends instead.
    """

    fanout: int = 0
    limit: float = 1.0
    shares: tuple[float, ...] = ()
    back: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Collective:
    """A collective over the rank's group on ``axis``; ``nbytes`` as nccl-tests counts it.

    ``spread``: who gets how much of an all-to-all, where that is not an equal part each (``nbytes``: what a member
    sends on average, every copy counted).
    """

    name: str
    kind: str
    axis: str
    nbytes: float
    phase: str = "F"
    algorithm: str = "auto"
    waits: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    spread: Spread | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """A message to ``peers[channel]`` of this rank. Eager: it travels as soon as it is posted.

    Blocking (rendezvous): it travels when both ends are posted. It is matched with the `Recv` of the peer whose
    segment carries the same tag.
    """

    name: str
    channel: str
    nbytes: float
    phase: str = "F"
    blocking: bool = False
    waits: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Recv:
    """The other end of a `Send`: from the rank whose ``peers[channel]`` is this rank."""

    name: str
    channel: str
    nbytes: float
    phase: str = "F"
    waits: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Allocate:
    """Memory taken from here on (a negative ``nbytes`` gives it back: see `Free`)."""

    category: str
    nbytes: float


@dataclass(frozen=True, slots=True, eq=False)
class Free:
    """Memory given back."""

    category: str
    nbytes: float


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Take one from each semaphore, then go on."""

    waits: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """Add one to each semaphore."""

    signals: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Ops played as one (see `sim.chain`), and the seconds each takes alone. Programs do not hold any."""

    ops: "tuple[Op, ...]"
    alone: tuple[float, ...]
    name: str = "merged"


@dataclass(frozen=True, slots=True, eq=False)
class Sync:
    """The host waits here until the stream has come this far (``torch.cuda.synchronize``, ``.item()``)."""


Op = Compute | Collective | Send | Recv | Allocate | Free | Wait | Signal | Sync | Merged


class Action(NamedTuple):
    """What a segment is part of: ``kind`` F, B, W, BW, F&B, or a word (optimizer, gather, ...)."""

    kind: str
    stage: int = -1
    chunk: int = -1
    microbatch: int = -1


class Segment(NamedTuple):
    """Ops of one action on one stream; sends and receives are matched by the action of their segment."""

    action: Action
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """What one kind of rank does: segments by stream, initial semaphore counts, memory held from the start.

    ``place`` is the rank's place in the pipeline; results are listed by it.
    """

    streams: Mapping[str, tuple[Segment, ...]]
    semaphores: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    label: str = ""
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """Scripts, who runs them, and who talks to whom.

    ``script_of_rank`` (world,) int; ``groups[axis]`` (num_groups, degree) ranks; ``peers[channel]`` (world,) the
    rank a `Send` on that channel goes to, -1 for none; ``flops`` model FLOPs of the whole step by
    convention (``full``, ``causal``, ``hardware``); ``tokens`` tokens of the step. ``reserved_units``: compute units of
    every device that only communication uses. ``libraries``: year of the kernel libraries (0: the tables').
    """

    scripts: tuple[Script, ...]
    script_of_rank: np.ndarray
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    peers: Mapping[str, np.ndarray] = field(default_factory=dict)
    flops: Mapping[str, float] = field(default_factory=dict)
    tokens: float = 0.0
    dtype: str = "bf16"
    assumptions: tuple[str, ...] = ()
    reserved_units: int = 0
    libraries: float = 0.0

    @property
    def num_ranks(self) -> int:
        """How many ranks run."""
        return len(self.script_of_rank)


def num_ops(program: Program) -> int:
    """Return how many ops the distinct scripts hold."""
    return sum(
        len(segment.ops)
        for script in program.scripts
        for segments in script.streams.values()
        for segment in segments
    )
