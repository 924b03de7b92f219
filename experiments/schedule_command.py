"""The command ``schedule``: one pipeline schedule alone, or a race of all, without a network."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.errors import ScheduleError
from sim.units import MEGA
from workloads.schedules import Orders, Placement, Times, find_schedule
from workloads.schedules.action import format_entry, parse_entry
from workloads.schedules.grid import time_grid
from workloads.schedules.race import Entrant
from workloads.schedules.race import race as run_race
from workloads.schedules.read import read_schedule
from workloads.schedules.timing import ScheduleTimes, time_orders

if TYPE_CHECKING:  # matplotlib is loaded only to draw
    from matplotlib.figure import Figure

PHASES = ("warmup", "steady", "drain")
MOST_ACTIONS = int(MEGA)
"""Forward passes of all ranks above which a schedule would take minutes to play."""


def parse_times(times: str | Sequence[float] | Times | None) -> Times:
    """Return the times of ``F,B,W[,COMM[,F&B]]`` of a rank's whole share; None is 1,1,1,0.

    Raises `ScheduleError` for anything but three to five numbers of at least 0.
    """
    if times is None or isinstance(times, Times):
        return times or Times()
    parts = times.split(",") if isinstance(times, str) else times
    try:
        values = [float(part) for part in parts]
    except (TypeError, ValueError):
        values = []
    if not 3 <= len(values) <= 5:
        raise ScheduleError(
            f"times {times!r} must be F,B,W,COMM: three numbers and the time of a hop, "
            "optionally that of an overlapped pair (1,1,1,0 or 1,1,1,0,3)"
        )
    return Times(*values)


def check_size(stages: int, microbatches: int, chunks: int) -> None:
    """Refuse a schedule of more actions than can be listed. Raises `ScheduleError`."""
    if stages * microbatches * chunks > MOST_ACTIONS:
        raise ScheduleError(
            f"stages={stages} x microbatches={microbatches} x chunks={chunks} are more than {MOST_ACTIONS} passes, "
            "too many to play; choose fewer"
        )


def schedule(
    name: str,
    stages: int | None = None,
    microbatches: int | None = None,
    chunks: int | None = None,
    times: str | Sequence[float] | Times | None = None,
    *,
    memory_limit: float = 0.0,
    weight_memory: float = 0.0,
    group_size: int = 0,
    overlap: bool = False,
    placement: str = "loop",
) -> dict[str, Any]:
    """Return what ``schedule --json`` prints for a schedule's name, or for a CSV file of tokens.

    Times are in the unit of ``times``, memory in microbatches of a rank's share (1/p of the model).
    For a file, ``placement`` is loop, v or bidir, and stages, microbatches and chunks, if given,
    must be the file's. Raises `ScheduleError`.
    """
    timing = parse_times(times)
    options: dict[str, Any] = {
        "memory_limit": memory_limit,
        "weight_memory": weight_memory,
        "group_size": group_size,
        "overlap": overlap,
    }
    if name.endswith(".csv"):
        given = {"stages": stages, "microbatches": microbatches, "chunks": chunks}
        orders, where, count = _from_file(name, placement, given, options)
    else:
        if stages is None or microbatches is None:
            raise ScheduleError(
                f"schedule {name} needs stages and microbatches, for example 4 and 8"
            )
        check_size(stages, microbatches, chunks or 1)
        kind, count = find_schedule(name), microbatches
        if placement not in ("loop", kind.placement_kind):
            raise ScheduleError(
                f"schedule {name} stands on a {kind.placement_kind}, not {placement}; "
                "leave placement out"
            )
        where = kind.placement(stages, chunks) if stages > 0 else Placement("loop", 1)
        orders = kind.generate(
            num_stages=stages, num_microbatches=count, chunks=chunks, times=timing, **options
        )
    if timing.fb and not any(len(entry) > 1 for order in orders for entry in order):
        raise ScheduleError(
            f"F&B={timing.fb:g} has no effect: schedule {name} has no overlapped pairs; leave it out"
        )
    played = time_orders(orders, where, timing)
    return {"name": name, "stages": where.num_ranks, "microbatches": count} | summary(
        played, timing, count
    )


def _from_file(
    name: str, placement: str, given: dict[str, int | None], options: dict[str, Any]
) -> tuple[Orders, Placement, int]:
    used = [option for option, value in options.items() if value]
    if used:
        raise ScheduleError(f"a schedule file has no option {used[0]}; leave it out")
    orders, where, count = read_schedule(Path(name), placement)
    found = {"stages": where.num_ranks, "microbatches": count, "chunks": where.chunks}
    for key, value in given.items():
        if value is not None and value != found[key]:
            raise ScheduleError(
                f"{name} has {key}={found[key]}, not {value}; leave {key} out or change the file"
            )
    return orders, where, count


def summary(played: ScheduleTimes, times: Times, microbatches: int) -> dict[str, Any]:
    """Return the numbers of a played schedule, ready for JSON."""
    where = played.placement
    fraction = played.bubble_fraction
    return {
        "chunks": where.chunks,
        "placement": where.kind,
        "times": {
            "F": times.f,
            "B": times.b,
            "W": times.w,
            "COMM": times.comm,
            "F&B": times.pair,
        },
        "makespan": played.makespan,
        "span": played.span,
        "busy": list(played.busy),
        "bubble_fraction": fraction,
        "bubble_overhead": fraction / (1.0 - fraction),
        "makespan_bubble": played.makespan_bubble,
        "span_bubble": played.span_bubble,
        "span_bubble_fraction": played.span_bubble / played.span,
        "bubbles": [dict(bubble) for bubble in played.bubbles],
        "peak_activations": list(played.peak_activations),
        "peak_activations_w": list(played.peak_activations_w),
        "messages": 2 * where.num_hops * microbatches,
        "orders": [[format_entry(entry) for entry in order] for order in played.orders],
    }


def play(result: dict[str, Any]) -> ScheduleTimes:
    """Return the played schedule of a result of `schedule` again, for grids and figures."""
    t = result["times"]
    orders = tuple(tuple(parse_entry(token) for token in row) for row in result["orders"])
    where = Placement(result["placement"], result["stages"], result["chunks"])
    return time_orders(orders, where, Times(t["F"], t["B"], t["W"], t["COMM"], t["F&B"]))


def race(
    stages: int,
    microbatches: int,
    times: str | Sequence[float] | Times | None = None,
    *,
    chunks: int | None = None,
    memory_limit: float = 0.0,
) -> list[dict[str, Any]]:
    """Return a row a schedule, least makespan first; ``status`` ok, or illegal with its reason.

    ``memory_limit`` bounds the activations that a rank holds until W, in microbatches of its share.
    """
    if stages < 1 or microbatches < 1:
        raise ScheduleError(
            f"a race with stages={stages}, microbatches={microbatches}: both must be at least 1"
        )
    check_size(stages, microbatches, chunks or 1)
    if memory_limit < 0:
        raise ScheduleError(f"memory_limit={memory_limit} must be at least 0 (0: none)")
    timing = parse_times(times)
    entrants = run_race(
        num_stages=stages,
        num_microbatches=microbatches,
        chunks=chunks,
        times=timing,
        memory_limit=memory_limit,
    )
    return [_row(entrant, timing, microbatches) for entrant in entrants]


def _row(entrant: Entrant, times: Times, microbatches: int) -> dict[str, Any]:
    if entrant.times is None:
        return {"schedule": entrant.name, "status": "illegal", "reason": entrant.reason}
    numbers = summary(entrant.times, times, microbatches)
    del numbers["orders"], numbers["times"]
    return {"schedule": entrant.name, "status": "ok"} | numbers


def text(result: dict[str, Any], *, width: int = 110) -> str:
    """Return a result of `schedule` for a person: the schedule over time, then a table by rank."""
    played = play(result)
    pairs = zip(result["peak_activations"], result["peak_activations_w"], strict=True)
    head = f"{'rank':<6}{'busy':>10}" + "".join(f"{phase:>10}" for phase in PHASES)
    lines = [
        f"{result['name']}: {result['stages']} stages, {result['microbatches']} microbatches, "
        f"{result['chunks']} chunks a rank ({result['placement']})",
        time_grid(played, width=width),
        "",
        f"{head}{'peak':>8}{'until W':>9}",
    ]
    for rank, (peak, held) in enumerate(pairs):
        idle = "".join(f"{result['bubbles'][rank][phase]:>10.4g}" for phase in PHASES)
        lines.append(f"{rank:<6}{result['busy'][rank]:>10.6g}{idle}{peak:>8.4g}{held:>9.4g}")
    lines += [
        "",
        f"makespan {result['makespan']:.6g}   bubble {result['bubble_fraction']:.2%} of it   "
        f"messages {result['messages']}",
        f"span {result['span']:.6g}   bubble {result['span_bubble_fraction']:.2%} of it "
        "(an optimizer step of each rank's own)",
        "busy and bubbles in the unit of the times; peak in microbatches of one rank's share",
    ]
    return "\n".join(lines)


def race_text(rows: list[dict[str, Any]]) -> str:
    """Return the rows of `race` for a person: a table, best first."""
    ran = [row for row in rows if row["status"] == "ok"]
    lines = [
        f"{'':>3} {'schedule':<15}{'chunks':>7}{'makespan':>12}{'bubble':>9}{'span':>12}"
        f"{'bubble':>9}{'peak':>8}{'until W':>9}{'messages':>10}"
    ]
    for place, row in enumerate(ran, start=1):
        lines.append(
            f"{place:>3} {row['schedule']:<15}{row['chunks']:>7}{row['makespan']:>12.6g}"
            f"{row['bubble_fraction']:>9.2%}{row['span']:>12.6g}{row['span_bubble_fraction']:>9.2%}"
            f"{max(row['peak_activations']):>8.4g}{max(row['peak_activations_w']):>9.4g}"
            f"{row['messages']:>10}"
        )
    lines += [f"  - {row['schedule']:<15} {row['reason']}" for row in rows if row not in ran]
    return "\n".join(lines)


def gantt_figure(*results: dict[str, Any], title: str = "") -> "Figure":
    """Return results of `schedule` as one figure, under each other (matplotlib loads here)."""
    from experiments.schedule_figure import gantt_figure as draw

    return draw([(result["name"], play(result)) for result in results], title=title)
