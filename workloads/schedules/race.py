"""Race: every schedule that is legal for the same ranks, microbatches, times and memory, ranked."""

from dataclasses import dataclass

from sim.errors import ScheduleError
from workloads.schedules import SCHEDULES
from workloads.schedules.kind import ScheduleKind, Times
from workloads.schedules.timing import ScheduleTimes, time_orders


@dataclass(frozen=True, slots=True)
class Entrant:
    """A schedule of the race: its times, or why it did not run."""

    name: str
    chunks: int
    times: ScheduleTimes | None
    reason: str = ""

    @property
    def peak(self) -> float:
        """Most activations a rank holds until W, in microbatches of its share."""
        return max(self.times.peak_activations_w) if self.times else 0.0


def race(
    *,
    num_stages: int,
    num_microbatches: int,
    chunks: int | None = None,
    times: Times | None = None,
    memory_limit: float = 0.0,
    names: tuple[str, ...] = tuple(SCHEDULES),
) -> list[Entrant]:
    """Return all schedules, least makespan first, then those that cannot run, with the reason.

    ``chunks`` goes to the schedules that take any number; ``memory_limit`` is in microbatches of a
    rank's share, held until W, 0: none. Ties: least memory, then the order of `SCHEDULES`.
    """
    timing = times or Times()
    entrants = [
        _enter(SCHEDULES[name], num_stages, num_microbatches, chunks, timing, memory_limit)
        for name in names
    ]
    ran = [entrant for entrant in entrants if entrant.times is not None]
    ran.sort(key=_rank)
    return ran + [entrant for entrant in entrants if entrant.times is None]


def _rank(entrant: Entrant) -> tuple[float, float]:
    assert entrant.times is not None
    return (round(entrant.times.makespan, 9), entrant.peak)


def _enter(
    kind: ScheduleKind, p: int, m: int, chunks: int | None, times: Times, memory_limit: float
) -> Entrant:
    count = chunks if kind.any_chunks else None
    placement = kind.placement(p, count)

    def run(limit: float = 0.0) -> Entrant:
        orders = kind.generate(
            num_stages=p, num_microbatches=m, chunks=count, times=times, memory_limit=limit
        )
        return Entrant(kind.name, placement.chunks, time_orders(orders, placement, times))

    try:
        entrant = run()
        if memory_limit and entrant.peak > memory_limit and "memory_limit" in kind.options:
            entrant = run(memory_limit)
    except ScheduleError as error:
        return Entrant(kind.name, placement.chunks, None, str(error))
    if memory_limit and entrant.peak > memory_limit:
        reason = f"holds {entrant.peak:g} microbatches of activations, limit {memory_limit:g}"
        return Entrant(kind.name, placement.chunks, None, reason)
    return entrant
