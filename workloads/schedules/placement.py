"""Placement: which stage of the model a chunk of a rank is.

- ``loop``: stage = chunk * p + rank (interleaved; with one chunk the plain pipeline);
- ``v``: two chunks a rank, stage = rank, then 2p - 1 - rank: the first and the last stage share
  rank 0;
- ``bidir``: a chunk is a direction; stage = rank, or p - 1 - rank: two copies of the model
  (DualPipe), and half the microbatches each way, numbered from 0 in each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from sim.errors import ScheduleError

_STAGE: dict[str, Callable[[int, int, int], int]] = {
    "loop": lambda p, rank, chunk: chunk * p + rank,
    "v": lambda p, rank, chunk: rank if chunk == 0 else 2 * p - 1 - rank,
    "bidir": lambda p, rank, chunk: rank if chunk == 0 else p - 1 - rank,
}
_CHUNKS = {"v": 2, "bidir": 2}


@dataclass(frozen=True, slots=True)
class Placement:
    """``kind`` loop, v or bidir, on ``num_ranks`` ranks of ``chunks`` chunks each."""

    kind: str
    num_ranks: int
    chunks: int = 1

    def __post_init__(self) -> None:
        if self.kind not in _STAGE:
            raise ScheduleError(
                f"placement {self.kind!r} is unknown; choose from {', '.join(_STAGE)}"
            )
        if self.num_ranks < 1 or self.chunks < 1:
            raise ScheduleError(
                f"{self.num_ranks} ranks of {self.chunks} chunks: both must be at least 1"
            )
        need = _CHUNKS.get(self.kind, self.chunks)
        if self.chunks != need:
            raise ScheduleError(
                f"placement {self.kind} has {need} chunks a rank, not {self.chunks}"
            )

    @property
    def num_stages(self) -> int:
        """Stages of one copy of the model."""
        return self.num_ranks if self.kind == "bidir" else self.num_ranks * self.chunks

    @property
    def num_directions(self) -> int:
        """Ways microbatches travel: 2 if bidirectional, else 1."""
        return 2 if self.kind == "bidir" else 1

    @property
    def share(self) -> float:
        """One chunk's part of a rank's share (1/p of the model): 1/v; bidirectional 1."""
        return self.num_ranks / self.num_stages

    def stage(self, rank: int, chunk: int) -> int:
        """Return the stage that this chunk of this rank is."""
        return _STAGE[self.kind](self.num_ranks, rank, chunk)

    def direction(self, chunk: int) -> int:
        """Return the direction of a chunk: its index if bidirectional, else 0."""
        return chunk if self.kind == "bidir" else 0

    def locate(self, stage: int, direction: int = 0) -> tuple[int, int]:
        """Return (rank, chunk) of a stage, the inverse of `stage`."""
        if self.kind == "bidir":
            return (self.stage(stage, direction), direction)
        if self.kind == "v" and stage >= self.num_ranks:
            return (2 * self.num_ranks - 1 - stage, 1)
        return (stage % self.num_ranks, stage // self.num_ranks)

    def previous(self, rank: int, chunk: int) -> tuple[int, int] | None:
        """Return (rank, chunk) of the stage before, whose output it takes; None at the first."""
        stage = self.stage(rank, chunk)
        return None if stage == 0 else self.locate(stage - 1, self.direction(chunk))

    def next(self, rank: int, chunk: int) -> tuple[int, int] | None:
        """Return (rank, chunk) of the stage after, which takes its output; None at the last."""
        stage = self.stage(rank, chunk)
        last = stage == self.num_stages - 1
        return None if last else self.locate(stage + 1, self.direction(chunk))

    def num_microbatches(self, total: int) -> int:
        """Return how many of ``total`` microbatches pass one chunk: half each way if bidir."""
        return total // self.num_directions

    @property
    def num_hops(self) -> int:
        """Messages between ranks that one microbatch causes one way (as many again come back)."""
        ranks = [self.locate(stage)[0] for stage in range(self.num_stages)]
        return sum(a != b for a, b in pairwise(ranks))
