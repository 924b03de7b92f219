"""``simulate``: one training step of a run, as numbers, a Gantt chart and a trace."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli_output import AsJson, Overrides, emit, working
from sim.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from experiments.simulation import Result

Window = tuple[float, float]


def simulate(
    run: Annotated[str, typer.Argument(help="Run file (TOML) or run preset; see list runs.")],
    overrides: Overrides = None,
    gantt: Annotated[Path | None, typer.Option(metavar="F.png", help="Draw the step.")] = None,
    gantt_window: Annotated[
        str | None, typer.Option(metavar="A:B", help="Draw from A to B, e.g. 0:500ms.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="F.json", help="Write a Chrome/Perfetto trace.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="F.html", help="Write a self-contained page.")
    ] = None,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Replay with each resource faster.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate one training step."""
    if what_if:
        raise InputError("--what-if is not yet available; change the cluster with --set instead")
    if report:
        raise InputError("--report is not yet available; use --gantt F.png or --trace F.json")
    window = parse_window(gantt_window) if gantt_window is not None else None
    if window and not gantt:
        raise InputError("--gantt-window says what --gantt draws; give --gantt F.png too")
    for path in (gantt, trace):
        check_writable(path)

    from experiments.runfile import load_run

    config = load_run(run, overrides or ())
    from experiments.simulation import simulate_run

    with working(f"simulating {config.name} on {config.cluster.num_devices:,} devices"):
        result = simulate_run(config)
        summary = result.summary()
    with working("drawing"):
        if gantt:
            draw(result, gantt, window)
        if trace:
            write(result, trace)

    def view() -> Iterator["RenderableType"]:
        from experiments.simulation_view import simulation_view

        return simulation_view(config, summary)

    emit(summary, as_json, view)


def draw(result: "Result", path: Path, window: Window | None) -> None:
    """Save the Gantt chart of a result."""
    from sim.plot import gantt

    gantt(result.timeline, window=window).savefig(path)


def write(result: "Result", path: Path) -> None:
    """Save the trace of a result."""
    from sim.trace import write_trace

    write_trace(result.timeline, path)


def parse_window(text: str) -> Window:
    """Return the seconds of ``A:B``; either may be a number or a time like 500ms. Raises `InputError`."""
    from experiments.quantity import parse_quantity

    first, colon, last = text.partition(":")
    if not colon:
        raise InputError(f"--gantt-window {text}: write A:B, for example 0:500ms")
    start, end = (parse_quantity(part, "--gantt-window") for part in (first, last))
    if not 0 <= start < end:
        raise InputError(f"--gantt-window {text}: A must be at least 0 and less than B")
    return start, end


def check_writable(path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work rather than after it. Raises `InputError`."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it, or write elsewhere")
