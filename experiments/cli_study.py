"""``study``: experiments that ask one question each and write their answer into ``results``."""

import ast
import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli_output import AsJson, emit, table, working
from sim.errors import InputError, unknown

WORKERS = 2
"""Studies that run at once."""


def questions() -> dict[str, str]:
    """Return the studies that ship, each with the question it asks: the first line of its module."""
    folder = Path(str(files("experiments"))) / "studies"
    found = {}
    for path in sorted(folder.glob("[!_]*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        found[path.stem.replace("_", "-")] = text.partition("\n")[0]
    return found


def study(
    name: Annotated[str, typer.Argument(help="A study, or all; see list studies.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder the results go to (default: results; with --quick nowhere)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The small form that CI runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run one study, or all: table.csv, figure.png and a finding for each, and an index of all there are."""
    known = questions()
    if name != "all" and name not in known:
        raise InputError(unknown("study", name, ["all", *known]))
    chosen = list(known) if name == "all" else [name]
    if not chosen:
        raise InputError("no study ships yet")

    from experiments.study import write_index

    folder = out if out is not None or quick else Path("results")
    with working(name):
        rows = _run(chosen, folder, quick=quick)
    if folder is not None:
        write_index(folder, known)
    shown = ("name", "finding", "cpu_s")
    emit(
        {"studies": rows},
        as_json,
        lambda: [table([[row[key] for key in shown] for row in rows], shown)],
    )
    if failed := [row["name"] for row in rows if row.get("failed")]:
        typer.echo(f"error: claims that do not hold: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _run(names: list[str], out: Path | None, *, quick: bool) -> list[dict[str, Any]]:
    """Run one study here, several in a pool of processes."""
    from experiments.study import attempt, run_studies

    if len(names) == 1:
        return [attempt(names[0], None if out is None else out / names[0], quick=quick)]

    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    workers = min(WORKERS, os.cpu_count() or 1, len(names))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return run_studies(names, out, pool, quick=quick)
