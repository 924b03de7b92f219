"""The command ``schedule --run``: a schedule, or all of them, on a real model and cluster, by full replay."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.cli_output import table
from experiments.runfile import RunConfig
from experiments.simulation import Result, simulate_run
from sim.errors import DeadlockError, InputError, ScheduleError
from sim.timeline import Timeline
from sim.units import GiB
from workloads.pipeline import pipeline
from workloads.schedules import SCHEDULES, Orders, Placement, Times, find_schedule
from workloads.schedules.action import format_entry
from workloads.schedules.timing import time_orders

if TYPE_CHECKING:
    from rich.console import RenderableType

PASSES = ("F", "B", "W", "BW", "F&B")
PHASES = ("warmup", "steady", "drain")
WORK = ("compute", "recompute", "overlap_slowdown")
"""Ledger causes during which kernels of passes run."""


def resized(config: RunConfig, stages: int | None, microbatches: int | None) -> RunConfig:
    """Return a run with other numbers of pipeline ranks and microbatches, on as many devices. Raises `InputError`."""
    plan = config.plan
    if stages is not None:
        others = plan.tp * plan.cp
        if stages < 1 or config.cluster.num_devices % (others * stages):
            raise InputError(
                f"--stages {stages} x tp {plan.tp} x cp {plan.cp} does not divide num_devices="
                f"{config.cluster.num_devices}; choose from the divisors of {config.cluster.num_devices // others}"
            )
        dp = config.cluster.num_devices // (others * stages)
        layout = plan.layout if stages == plan.pp else ()
        plan = replace(plan, pp=stages, dp=dp, layout=layout)
    if microbatches is not None:
        if microbatches < 1:
            raise InputError(f"--microbatches {microbatches} must be at least 1")
        plan = replace(plan, global_batch=microbatches * plan.dp * plan.microbatch)
    return replace(config, plan=plan)


def with_schedule(
    config: RunConfig, name: str, chunks: int | None = None, group_size: int = 0
) -> RunConfig:
    """Return a run under another schedule.

    ``chunks``: for schedules of any number; else the run's own where it has several, else the schedule's usual
    number. Raises `InputError`.
    """
    kind, plan = find_schedule(name), config.plan
    if kind.any_chunks:
        count = chunks or (plan.chunks if plan.chunks > 1 else kind.default_chunks)
    else:
        count = kind.default_chunks
    if group_size and "group_size" not in kind.options:
        raise ScheduleError(f"schedule {name} has no option group_size; leave it out")
    own = plan.group_size if "group_size" in kind.options else 0
    layout = plan.layout if plan.pp * count == plan.num_stages else ()
    return replace(
        config,
        plan=replace(
            plan, schedule=name, chunks=count, group_size=group_size or own, layout=layout
        ),
    )


def run_schedule(config: RunConfig) -> tuple[dict[str, Any], Result]:
    """Return what ``schedule --run --json`` prints, and the replay; times in seconds.

    Keys are those of `schedule` without times: ``makespan`` runs from the first pass to the last, ``span`` is the
    longest of any rank, ``busy`` seconds of kernels a rank; bubbles are the ledger's. Besides: ``step_time_s mfu
    exposed_comm_s peak_activation_bytes peak_memory_bytes fits`` (per rank where lists).
    """
    result = simulate_run(config)
    placement, orders = pipeline(config.model, config.plan)
    return _numbers(config, result, placement, orders), result


def _numbers(
    config: RunConfig, result: Result, placement: Placement, orders: Orders
) -> dict[str, Any]:
    summary = result.summary()
    stages = summary["ledger"]["stages"]
    makespan, span = passes(result.timeline)
    held = time_orders(orders, placement, Times())
    plan = config.plan
    return {
        "name": plan.schedule,
        "run": config.name,
        "stages": placement.num_ranks,
        "microbatches": plan.num_microbatches,
        "chunks": placement.chunks,
        "placement": placement.kind,
        "makespan": makespan,
        "span": span,
        "step_time_s": summary["step_time_s"],
        "busy": [sum(part.get(cause, 0.0) for cause in WORK) for part in stages],
        "bubble_fraction": summary["bubble_fraction"],
        "bubble_overhead": summary["bubble_overhead"],
        "bubbles": [{p: part.get(f"bubble.{p}", 0.0) for p in PHASES} for part in stages],
        "peak_activations": list(held.peak_activations),
        "peak_activations_w": list(held.peak_activations_w),
        "peak_activation_bytes": [
            s["breakdown"].get("activations", 0.0) for s in summary["memory"]
        ],
        "memory_bytes": [s["driver_bytes"] for s in summary["memory"]],
        "peak_memory_bytes": summary["peak_memory_bytes"],
        "fits": summary["fits"],
        "verdict": max(summary["memory"], key=lambda stage: float(stage["driver_bytes"]))[
            "verdict"
        ],
        "capacity_bytes": summary["capacity_bytes"],
        "messages": 2 * placement.num_hops * plan.num_microbatches,
        "mfu": summary["mfu"],
        "tokens_per_s": summary["tokens_per_s"],
        "exposed_comm_s": summary["exposed_comm_s"],
        "ledger": summary["ledger"],
        "assumptions": summary["assumptions"],
        "orders": [[format_entry(entry) for entry in order] for order in orders],
    }


def passes(timeline: Timeline) -> tuple[float, float]:
    """Return (makespan, span): seconds from the first to the last pass of all ranks, and the longest of any rank."""
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for stream in timeline.streams:
        if not stream.computes:
            continue
        times = [(start, end) for _, action, _, start, end in stream.spans if action.kind in PASSES]
        if times:
            c = stream.rank_class
            first[c] = min(first.get(c, times[0][0]), times[0][0])
            last[c] = max(last.get(c, 0.0), max(end for _, end in times))
    if not first:
        return 0.0, 0.0
    return max(last.values()) - min(first.values()), max(last[c] - first[c] for c in first)


def run_race(
    config: RunConfig, chunks: int | None = None, names: Sequence[str] = tuple(SCHEDULES)
) -> Iterator[dict[str, Any]]:
    """Yield a row a schedule, as each is replayed; ``status`` ok, or illegal with its reason."""
    for name in names:
        try:
            changed = with_schedule(config, name, chunks)
            placement, orders = pipeline(changed.model, changed.plan)
            result = simulate_run(changed, merged=True)
        except (InputError, DeadlockError) as problem:
            yield {"schedule": name, "status": "illegal", "reason": str(problem)}
            continue
        numbers = _numbers(changed, result, placement, orders)
        del numbers["orders"], numbers["name"]
        yield {"schedule": name, "status": "ok"} | numbers


def ranked(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of a race: those that fit, fastest first; those that do not; those that are illegal."""

    def key(row: Mapping[str, Any]) -> tuple[bool, bool, float]:
        ran = row["status"] == "ok"
        return not ran, not row.get("fits", False), float(row.get("step_time_s", 0.0))

    return sorted(rows, key=key)


def run_view(answer: Mapping[str, Any]) -> list["RenderableType"]:
    """Return one schedule's replay for people: a row a rank, then the whole."""
    rows = []
    for rank, busy in enumerate(answer["busy"]):
        bubble = answer["bubbles"][rank]
        rows.append(
            (rank, busy, *(bubble[phase] for phase in PHASES), answer["peak_activations"][rank],
             answer["peak_activations_w"][rank], answer["peak_activation_bytes"][rank] / GiB,
             answer["memory_bytes"][rank] / GiB)
        )  # fmt: skip
    columns = ("rank", "busy s", "warm-up s", "steady s", "drain s", "microbatches held", "until W",
               "activations GiB", "of the driver GiB")  # fmt: skip
    title = (
        f"{answer['name']} on {answer['run']}: {answer['stages']} ranks x {answer['chunks']} chunks "
        f"({answer['placement']}), {answer['microbatches']} microbatches"
    )
    exposed = ", ".join(f"{axis} {s:.3g} s" for axis, s in answer["exposed_comm_s"].items())
    facts = (
        ("step time", f"{answer['step_time_s']:.4g} s"),
        ("makespan of the passes", f"{answer['makespan']:.4g} s"),
        ("longest span of a rank", f"{answer['span']:.4g} s"),
        ("bubble, share of the step", f"{answer['bubble_fraction']:.1%}"),
        ("MFU", f"{answer['mfu']:.1%}"),
        ("messages of a pipeline", f"{answer['messages']:,}"),
        ("exposed communication", exposed or "none"),
        (
            "memory",
            "fits" if answer["fits"] else f"DOES NOT FIT {answer['capacity_bytes'] / GiB:.1f} GiB",
        ),
        *(("assumption", text) for text in answer["assumptions"]),
    )
    return [table(rows, columns, title), table(facts, ("figure", "value"))]


def race_view(rows: Sequence[Mapping[str, Any]], title: str) -> list["RenderableType"]:
    """Return a race for people: best first, then what could not run and why."""
    ran = [row for row in rows if row["status"] == "ok"]
    shown = [
        (place, row["schedule"], row["chunks"], row["step_time_s"], row["makespan"], row["span"],
         f"{row['bubble_fraction']:.1%}", f"{row['mfu']:.1%}", max(row["peak_activations_w"]),
         max(row["memory_bytes"]) / GiB, row["verdict"], row["messages"])
        for place, row in enumerate(ran, start=1)
    ]  # fmt: skip
    columns = ("", "schedule", "chunks", "step s", "makespan s", "span s", "bubble", "MFU", "microbatches held",
               "GiB of the driver", "memory", "messages")  # fmt: skip
    parts = [table(shown, columns, title)]
    out = [(row["schedule"], row["reason"]) for row in rows if row["status"] != "ok"]
    return [*parts, table(out, ("not legal here", "why"))] if out else parts
