"""``study``: experiments that ask one question each and write their answer into ``results``."""

import ast
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from experiments.cli_output import AsJson, emit, table, working
from sim.errors import InputError, unknown


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
    out: Annotated[Path, typer.Option(help="Folder the results go to.")] = Path("results"),
    quick: Annotated[bool, typer.Option("--quick", help="The small form that CI runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run one study, or all: table.csv, figure.png and a finding for each."""
    known = questions()
    if name != "all" and name not in known:
        raise InputError(unknown("study", name, ["all", *known]))
    chosen = list(known) if name == "all" else [name]
    if not chosen:
        raise InputError("no study ships yet")

    from experiments.study import run_study

    rows = []
    for each in chosen:
        module = import_module(f"experiments.studies.{each.replace('-', '_')}")
        with working(each):
            rows.append(run_study(each, module, out / each, quick=quick))
    shown = ("name", "finding", "cpu_s")
    emit(
        {"studies": rows},
        as_json,
        lambda: [table([[row[key] for key in shown] for row in rows], shown)],
    )
