"""``schedule``: a pipeline schedule alone: orders, makespan, bubbles, activation peak."""

from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli_output import AsJson, emit, table, working
from experiments.cli_simulate import check_writable
from sim.errors import InputError

RACE_COLUMNS = ("schedule", "makespan", "bubble_fraction", "peak_activations")


def schedule(
    name: Annotated[
        str, typer.Argument(help="1f1b, gpipe, ... (see list schedules), or a CSV file.")
    ],
    stages: Annotated[int, typer.Option(help="Pipeline ranks.")],
    microbatches: Annotated[int, typer.Option(help="Microbatches of a step.")],
    chunks: Annotated[int, typer.Option(help="Model chunks a rank.")] = 1,
    times: Annotated[
        str, typer.Option(metavar="F,B,W,COMM", help="Times of a rank's whole share, and of a hop.")
    ] = "1,1,1,0",
    race: Annotated[
        bool, typer.Option("--race", help="Every schedule under the same times.")
    ] = False,
    gantt: Annotated[Path | None, typer.Option(metavar="F.png", help="Draw it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Play a pipeline schedule without a machine."""
    from experiments import schedule_command

    check_writable(gantt)
    durations = parse_times(times)
    with working(f"schedule {name}"):
        if race:
            rows: list[dict[str, Any]] = schedule_command.race(stages, microbatches, durations)
        else:
            answer: dict[str, Any] = schedule_command.schedule(
                name, stages, microbatches, chunks, durations
            )
        if gantt and not race:
            schedule_command.gantt_figure(answer).savefig(gantt)
    if race:
        emit(
            {"schedules": rows},
            as_json,
            lambda: [table([[row.get(key) for key in RACE_COLUMNS] for row in rows], RACE_COLUMNS)],
        )
    else:
        emit(answer, as_json, lambda: [schedule_command.text(answer)])


def parse_times(text: str) -> tuple[float, float, float, float]:
    """Return F, B, W and COMM of ``1,1,1,0``. Raises `InputError`."""
    parts = text.split(",")
    try:
        values = [float(part) for part in parts]
    except ValueError:
        values = []
    if len(values) != 4 or any(not 0 <= value < float("inf") for value in values):
        raise InputError(
            f"--times {text}: write four numbers F,B,W,COMM of 0 or more, e.g. 1,1,1,0"
        )
    return values[0], values[1], values[2], values[3]
