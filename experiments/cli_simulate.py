"""``simulate``: one training step of a run, as numbers, a Gantt chart and traces."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli_output import AsJson, Overrides, emit, working
from experiments.garbage import uncollected
from sim.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from experiments.runfile import RunConfig
    from experiments.simulation import Result

Window = tuple[float, float]
PICTURES = (".png", ".pdf", ".svg", ".jpg", ".webp")
"""Endings of picture files."""


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
    kineto: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a Kineto trace a rank class.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="F.html", help="Write a self-contained page.")
    ] = None,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Replay with each resource twice as fast, and free.")
    ] = False,
    what_if_chart: Annotated[
        Path | None, typer.Option(metavar="F.png", help="Draw --what-if.")
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Replay single changes of the plan that save memory.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Simulate one training step."""
    window = parse_window(gantt_window) if gantt_window is not None else None
    if window and not gantt:
        raise InputError("--gantt-window says what --gantt draws; give --gantt F.png too")
    check_outputs(trace, kineto, report, (gantt, what_if_chart))

    from experiments.runfile import load_run

    config = load_run(run, overrides or ())
    from experiments.simulation import simulate_run

    name, size = config.name, config.cluster.num_devices
    with working(f"simulating {name} on {size:,} devices"), uncollected():
        result = simulate_run(config)
        summary = {**result.summary(), **result.balance}
    with working("looking for what would fit"):
        if fit:
            summary["would_fit"] = suggestions(config)
    with working("asking what if"):
        if what_if or what_if_chart:
            summary["what_if"] = ask(config, result, what_if_chart)
    with working("drawing"):
        if gantt:
            draw(result, gantt, window)
        if trace:
            write(result, trace)
        if kineto:
            write_ranks(result, kineto)
        if report:
            page([(config, result, summary)], report)

    emit(summary, as_json, lambda: _view(config, summary))


def _view(config: "RunConfig", summary: Mapping[str, Any]) -> "Iterator[RenderableType]":
    """Return what is printed for people."""
    from experiments.simulation_view import simulation_view

    return simulation_view(config, summary)


def draw(result: "Result", path: Path, window: Window | None) -> None:
    """Save the Gantt chart of a result."""
    from sim.plot import gantt

    gantt(result.timeline, window=window).savefig(path)


def write(result: "Result", path: Path) -> None:
    """Save the trace of a result."""
    from sim.trace import write_trace

    write_trace(result.timeline, path)


def write_ranks(result: "Result", folder: Path) -> None:
    """Save a Kineto trace of one rank of each class, as profilers' readers take them."""
    from sim.trace import write_kineto

    write_kineto(result.timeline, folder)


def suggestions(config: "RunConfig") -> list[dict[str, Any]]:
    """Return single changes of the plan and whether each would fit."""
    from experiments.fit import would_fit

    return would_fit(config)


def ask(config: "RunConfig", result: "Result", chart: Path | None) -> list[dict[str, Any]]:
    """Return the step with each resource faster, and draw it."""
    from experiments.what_if import what_if, what_if_figure

    rows = what_if(config, result.timeline)
    if chart:
        what_if_figure(rows, config.name).savefig(chart)
    return rows


def page(runs: "Sequence[tuple[RunConfig, Result, Mapping[str, Any]]]", path: Path) -> None:
    """Write the page of one run, or of several on one clock."""
    from experiments.simulation_view import title_lines
    from sim.report import ReportRun, write_report

    write_report(
        [
            ReportRun(
                name=config.name,
                timeline=result.timeline,
                summary=summary,
                facts=title_lines(config),
                parts=result.parts,
                more=asked(config, summary),
            )
            for config, result, summary in runs
        ],
        path,
    )


def asked(config: "RunConfig", summary: Mapping[str, Any]) -> "list[tuple[str, Figure, str]]":
    """Return the chart of ``--what-if`` for the page, where that was asked."""
    if "what_if" not in summary:
        return []
    from experiments.what_if import what_if_figure

    caption = (
        "The step replayed with one resource twice as fast, and free: what to buy, what to fix."
    )
    return [("What if", what_if_figure(summary["what_if"], config.name), caption)]


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


def check_outputs(
    trace: Path | None, kineto: Path | None, report: Path | None, pictures: Sequence[Path | None]
) -> None:
    """Refuse what cannot be written, before the work rather than after it. Raises `InputError`."""
    check_trace(trace)
    check_folder(kineto)
    check_writable(report)
    for path in pictures:
        check_picture(path)


def check_writable(path: Path | None) -> None:
    """Refuse a file that cannot be written. Raises `InputError`."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it, or write elsewhere")


def check_trace(path: Path | None) -> None:
    """As `check_writable`, of a trace: a folder of files is another option. Raises `InputError`."""
    if path is not None and path.is_dir():
        raise InputError(
            f"--trace {path} is a folder; give the name of a file, or --kineto {path} for a file a rank"
        )
    check_writable(path)


def check_folder(path: Path | None) -> None:
    """Refuse a folder that cannot be made or filled. Raises `InputError`."""
    if path is None:
        return
    if path.exists() and not path.is_dir():
        raise InputError(f"--kineto {path} is a file; give the name of a folder")
    there = path if path.is_dir() else path.absolute().parent
    if not there.is_dir():
        raise InputError(
            f"--kineto {path}: there is no folder {there}; make it, or write elsewhere"
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--kineto {path}: {there} cannot be written to; write elsewhere")


def check_picture(path: Path | None) -> None:
    """As `check_writable`, of a picture in a format that can be drawn. Raises `InputError`."""
    check_writable(path)
    if path is not None and path.suffix not in PICTURES:
        raise InputError(
            f"{path} is no picture that can be drawn; end its name in one of {', '.join(PICTURES)}"
        )
