"""``schedule``: a pipeline schedule alone: orders, makespan, bubbles, activation peak, Gantt."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli_output import AsJson, Overrides, emit, working
from experiments.cli_simulate import check_picture, draw
from sim.errors import InputError

if TYPE_CHECKING:
    from experiments.runfile import RunConfig

Size = tuple[int | None, int | None, int | None]
"""Stages, microbatches and chunks, where given."""


def schedule(
    name: Annotated[str, typer.Argument(help="1f1b, gpipe, ... (list schedules), or a CSV file.")],
    stages: Annotated[int | None, typer.Option(help="Pipeline ranks.")] = None,
    microbatches: Annotated[int | None, typer.Option(help="Microbatches of a step.")] = None,
    chunks: Annotated[int | None, typer.Option(help="Model chunks a rank.")] = None,
    times: Annotated[
        str | None,
        typer.Option(
            metavar="F,B,W,COMM[,F&B]",
            help="Times of a rank's whole share, of a hop, of an overlapped pair; 1,1,1,0 if not given.",
        ),
    ] = None,
    memory_limit: Annotated[
        float, typer.Option(help="Activations a rank may hold, in microbatches; 0: no limit.")
    ] = 0.0,
    weight_memory: Annotated[
        float,
        typer.Option(help="Part of an activation kept from B to W, 0..1; 0: the schedule's own."),
    ] = 0.0,
    group_size: Annotated[int, typer.Option(help="Interleaved: microbatches a round.")] = 0,
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Interleaved: forward and backward as pairs.")
    ] = False,
    placement: Annotated[str, typer.Option(help="Of a CSV file: loop, v or bidir.")] = "loop",
    race: Annotated[bool, typer.Option("--race", help="Every schedule, same times.")] = False,
    run: Annotated[
        str | None, typer.Option(help="Replay it on the model and cluster of a run.")
    ] = None,
    overrides: Overrides = None,
    gantt: Annotated[Path | None, typer.Option(metavar="F.png", help="Draw it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play a pipeline schedule without a machine, or with --run on one."""
    check_picture(gantt)
    if race and gantt:
        raise InputError("--gantt draws one schedule; leave --race out")
    options: dict[str, Any] = {
        "memory_limit": memory_limit,
        "weight_memory": weight_memory,
        "group_size": group_size,
        "overlap": overlap,
        "placement": placement,
    }
    size = (stages, microbatches, chunks)
    if run is not None:
        _refuse_with_run(name, times, options)
        if race:
            _race_run(name, run, overrides, size, group_size, as_json)
        else:
            _play_run(name, run, overrides, size, group_size, gantt, as_json)
        return
    if overrides:
        raise InputError("--set changes a run; give --run RUN too")
    if race:
        _refuse_in_race(options)
        _race(name, stages, microbatches, chunks, times, memory_limit, as_json)
        return
    _play(name, size, times, options, gantt, as_json)


def _play(
    name: str,
    size: Size,
    times: str | None,
    options: Mapping[str, Any],
    gantt: Path | None,
    as_json: bool,
) -> None:
    """Play one schedule without a machine."""
    from experiments import schedule_command

    with working(f"schedule {name}"):
        answer: dict[str, Any] = schedule_command.schedule(name, *size, times, **options)
        if gantt:
            schedule_command.gantt_figure(answer).savefig(gantt, dpi=150)
    emit(answer, as_json, lambda: [schedule_command.text(answer)])


def _refuse_with_run(name: str, times: str | None, options: Mapping[str, Any]) -> None:
    """Refuse options that a run decides. Raises `InputError`."""
    if name.endswith(".csv"):
        raise InputError(
            f"--run plays schedules by name, not the file {name}; leave --run out, or name one"
        )
    if times is not None:
        raise InputError(
            "--times and --run: a run's times come from its model and cluster; leave --times out"
        )
    neutral = {"memory_limit": 0.0, "weight_memory": 0.0, "overlap": False, "placement": "loop"}
    for option, value in neutral.items():
        if options[option] != value:
            flag = "--" + option.replace("_", "-")
            raise InputError(
                f"{flag} has no effect with --run; leave it out (--set plan.overlap_ep=on pairs passes)"
            )


def _refuse_in_race(options: Mapping[str, Any]) -> None:
    """Refuse options of one schedule. Raises `InputError`."""
    neutral = {"weight_memory": 0.0, "group_size": 0, "overlap": False, "placement": "loop"}
    for option, value in neutral.items():
        if options[option] != value:
            flag = "--" + option.replace("_", "-")
            raise InputError(f"{flag} is an option of one schedule; leave --race out, or {flag}")


def _config(run: str, overrides: list[str] | None, size: Size) -> "RunConfig":
    from experiments.runfile import load_run
    from experiments.schedule_run import resized

    config = resized(load_run(run, overrides or ()), size[0], size[1])
    if config.plan.pp == 1:
        raise InputError(
            f"run {config.name} has no pipeline (pp=1); give --stages P, for example --stages 4"
        )
    return config


def _play_run(
    name: str,
    run: str,
    overrides: list[str] | None,
    size: Size,
    group_size: int,
    gantt: Path | None,
    as_json: bool,
) -> None:
    """Replay one schedule on a run."""
    from experiments import schedule_run
    from workloads.schedules import find_schedule

    kind = find_schedule(name)
    config = _config(run, overrides, size)
    if size[2] is not None:
        kind.placement(config.plan.pp, size[2])
    changed = schedule_run.with_schedule(config, name, size[2], group_size)
    with working(f"schedule {name} on {config.name}"):
        answer, result = schedule_run.run_schedule(changed)
        if gantt:
            draw(result, gantt, None)
    emit(answer, as_json, lambda: schedule_run.run_view(answer))


def _race_run(
    name: str, run: str, overrides: list[str] | None, size: Size, group_size: int, as_json: bool
) -> None:
    """Replay every schedule on a run."""
    from experiments import schedule_run
    from workloads.schedules import find_schedule

    find_schedule(name)
    if group_size:
        raise InputError(
            "--group-size is an option of one schedule; leave --race out, or --group-size"
        )
    config = _config(run, overrides, size)
    with working(f"racing every schedule on {config.name}"):
        rows = schedule_run.ranked(list(schedule_run.run_race(config, size[2])))
    plan = config.plan
    title = (
        f"every schedule on {config.name}: {plan.pp} ranks, {plan.num_microbatches} microbatches"
    )
    emit(
        {
            "name": name,
            "run": config.name,
            "stages": plan.pp,
            "microbatches": plan.num_microbatches,
            "schedules": rows,
        },
        as_json,
        lambda: schedule_run.race_view(rows, title),
    )


def _race(
    name: str,
    stages: int | None,
    microbatches: int | None,
    chunks: int | None,
    times: str | None,
    memory_limit: float,
    as_json: bool,
) -> None:
    """Play every schedule under the same times; the named one must be among them."""
    from experiments import schedule_command
    from workloads.schedules import find_schedule

    find_schedule(name)
    if stages is None or microbatches is None:
        raise InputError("--race needs --stages and --microbatches, for example 8 and 64")
    with working("racing every schedule"):
        rows = schedule_command.race(
            stages, microbatches, times, chunks=chunks, memory_limit=memory_limit
        )
    emit(
        {"name": name, "stages": stages, "microbatches": microbatches, "schedules": rows},
        as_json,
        lambda: [schedule_command.race_text(rows)],
    )
