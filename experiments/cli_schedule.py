"""``schedule``: a pipeline schedule alone: orders, makespan, bubbles, activation peak, Gantt."""

from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli_output import AsJson, emit, working
from experiments.cli_simulate import check_writable
from sim.errors import InputError


def schedule(
    name: Annotated[str, typer.Argument(help="1f1b, gpipe, ... (list schedules), or a CSV file.")],
    stages: Annotated[int | None, typer.Option(help="Pipeline ranks.")] = None,
    microbatches: Annotated[int | None, typer.Option(help="Microbatches of a step.")] = None,
    chunks: Annotated[int | None, typer.Option(help="Model chunks a rank.")] = None,
    times: Annotated[
        str, typer.Option(metavar="F,B,W,COMM", help="Times of a rank's whole share, and of a hop.")
    ] = "1,1,1,0",
    memory_limit: Annotated[
        float, typer.Option(help="Activations a rank may hold, in microbatches; 0: no limit.")
    ] = 0.0,
    group_size: Annotated[int, typer.Option(help="Interleaved: microbatches a round.")] = 0,
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Interleaved: forward and backward as pairs.")
    ] = False,
    placement: Annotated[str, typer.Option(help="Of a CSV file: loop, v or bidir.")] = "loop",
    race: Annotated[bool, typer.Option("--race", help="Every schedule, same times.")] = False,
    run: Annotated[str | None, typer.Option(help="Take the times from a run.")] = None,
    gantt: Annotated[Path | None, typer.Option(metavar="F.png", help="Draw it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play a pipeline schedule without a machine."""
    if run is not None:
        raise InputError("--run is not yet available; give --times F,B,W,COMM")
    check_writable(gantt)
    from experiments import schedule_command

    if race:
        _race(name, stages, microbatches, chunks, times, memory_limit, gantt, as_json)
        return
    with working(f"schedule {name}"):
        answer: dict[str, Any] = schedule_command.schedule(
            name,
            stages,
            microbatches,
            chunks,
            times,
            memory_limit=memory_limit,
            group_size=group_size,
            overlap=overlap,
            placement=placement,
        )
        if gantt:
            schedule_command.gantt_figure(answer).savefig(gantt, dpi=150)
    emit(answer, as_json, lambda: [schedule_command.text(answer)])


def _race(
    name: str,
    stages: int | None,
    microbatches: int | None,
    chunks: int | None,
    times: str,
    memory_limit: float,
    gantt: Path | None,
    as_json: bool,
) -> None:
    """Play every schedule under the same times; the named one must be among them."""
    from experiments import schedule_command
    from workloads.schedules import find_schedule

    find_schedule(name)
    if stages is None or microbatches is None:
        raise InputError("--race needs --stages and --microbatches, for example 8 and 64")
    if gantt:
        raise InputError("--gantt draws one schedule; leave --race out")
    with working("racing every schedule"):
        rows = schedule_command.race(
            stages, microbatches, times, chunks=chunks, memory_limit=memory_limit
        )
    emit(
        {"name": name, "stages": stages, "microbatches": microbatches, "schedules": rows},
        as_json,
        lambda: [schedule_command.race_text(rows)],
    )
