"""ScheduleKind: one kind of schedule, what it needs and what it does with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sim.errors import ScheduleError
from workloads.schedules.action import Orders
from workloads.schedules.placement import Placement


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of a rank's whole share (1/p of the model) for one microbatch, and of one hop.

    A chunk's action costs its part of it, 1/v. ``fb`` is the time of an overlapped forward and
    fused backward; 0 means nothing gained: ``f + b + w``.
    """

    f: float = 1.0
    b: float = 1.0
    w: float = 1.0
    comm: float = 0.0
    fb: float = 0.0

    def __post_init__(self) -> None:
        named = {"F": self.f, "B": self.b, "W": self.w, "COMM": self.comm, "F&B": self.fb}
        for name, value in named.items():
            if not 0 <= value < float("inf"):
                raise ScheduleError(f"time {name}={value} must be a number of at least 0")
        if self.f + self.b + self.w <= 0:
            raise ScheduleError("times F, B and W are all 0; give at least one of them a duration")

    @property
    def pair(self) -> float:
        """Time of an overlapped forward and fused backward."""
        return self.fb or self.f + self.b + self.w


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of a schedule: ranks, microbatches, chunks a rank, times and options."""

    num_ranks: int
    num_microbatches: int
    chunks: int = 1
    times: Times = Times()
    memory_limit: float = 0.0
    """Activations a rank may hold, in microbatches of its whole share; 0: the schedule's own."""
    weight_memory: float = 0.0
    """Part of an activation kept from B to W, in the memory limit; 0: the schedule's own."""
    group_size: int = 0
    """Interleaved: microbatches that pass a chunk before the next; 0: the schedule's own."""
    overlap: bool = False
    """Interleaved: forward and backward of the steady phase as overlapped pairs."""


Generator = Callable[[Request], Orders]
Rule = Callable[[Request], None]


def no_rule(request: Request) -> None:
    """Accept every number of ranks and microbatches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleKind:
    """A schedule: its generator, placement, rule, and which options it reads."""

    name: str
    orders: Generator
    placement_kind: str = "loop"
    split_backward: bool = False
    default_chunks: int = 1
    any_chunks: bool = False
    rule: Rule = no_rule
    rule_text: str = "any number of stages and microbatches"
    options: tuple[str, ...] = ()
    searched: bool = False
    """Its order depends on the times."""

    def placement(self, num_stages: int, chunks: int | None = None) -> Placement:
        """Return where the chunks of ``num_stages`` ranks stand; raise for a wrong ``chunks``.

        A schedule of a fixed number of chunks takes 1 as not given.
        """
        unset = chunks is None or (chunks == 1 and not self.any_chunks)
        count = self.default_chunks if chunks is None or unset else chunks
        if count < 1 or not (self.any_chunks or count == self.default_chunks):
            legal = "1 or more" if self.any_chunks else str(self.default_chunks)
            raise ScheduleError(
                f"schedule {self.name} cannot have chunks={count}; it has {legal} a rank"
                + (
                    ""
                    if self.any_chunks
                    else f": choose chunks={self.default_chunks} or leave it out"
                )
            )
        return Placement(self.placement_kind, num_stages, count)

    def generate(
        self,
        *,
        num_stages: int,
        num_microbatches: int,
        chunks: int | None = None,
        times: Times | None = None,
        memory_limit: float = 0.0,
        weight_memory: float = 0.0,
        group_size: int = 0,
        overlap: bool = False,
    ) -> Orders:
        """Return every rank's order (``num_stages``: the pipeline's ranks p).

        Raises `ScheduleError` with the rule and nearest values.
        """
        if num_stages < 1 or num_microbatches < 1:
            raise ScheduleError(
                f"schedule {self.name} with stages={num_stages}, microbatches={num_microbatches}: "
                "both must be at least 1"
            )
        given = {
            "memory_limit": memory_limit,
            "weight_memory": weight_memory,
            "group_size": group_size,
            "overlap": overlap,
        }
        self._check_options(given)
        request = Request(
            num_ranks=num_stages,
            num_microbatches=num_microbatches,
            chunks=self.placement(num_stages, chunks).chunks,
            times=Times() if times is None else times,
            memory_limit=memory_limit,
            weight_memory=weight_memory,
            group_size=group_size,
            overlap=overlap,
        )
        self.rule(request)
        return self.orders(request)

    def _check_options(self, given: Mapping[str, float]) -> None:
        """Refuse an option the schedule does not read, and one below 0. Raises `ScheduleError`."""
        for option, value in given.items():
            if value and option not in self.options:
                raise ScheduleError(
                    f"schedule {self.name} has no option {option} (given {value}); leave it out"
                )
            if value < 0:
                raise ScheduleError(f"{option}={value} must be at least 0 (0: the schedule's own)")
