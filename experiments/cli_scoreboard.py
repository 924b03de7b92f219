"""``scoreboard``: predicted against measured, row by row and in sum."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli_output import AsJson, emit, table
from sim.errors import InputError

if TYPE_CHECKING:
    from experiments.scoreboard import Scored

SHIPPED = Path(__file__).parent / "data"
"""Where the tables that ship are: ``runs.csv``, ``collectives.csv``, ``kernels.csv``."""
REASONS = 12
NAME = 60
"""Characters of a source that are shown."""
SOURCES = {
    "runs": "by source; which constants of software were fitted on which of them stands below",
    "collectives": "by source; constants of links are fitted on these, a vote a source (experiments.calibration)",
    "kernels": "by source; constants of devices are fitted on these (experiments.calibration)",
}
LABELS = ("id", "hardware", "device", "collective", "kernel", "dtype", "n_devices", "nbytes")
ERRORS = ("measured", "scored", "groups", "median_abs_error", "p90_abs_error", "bias")
HEADS = ("measured", "scored", "groups", "median", "90th pct", "bias")
Csv = Annotated[Path | None, typer.Option(metavar="CSV", help="Score this table.")]
Out = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write every row there.")]
Figure = Annotated[
    Path | None, typer.Option(metavar="PNG", help="Draw predicted against measured.")
]


def scoreboard(
    runs: Csv = None,
    collectives: Csv = None,
    kernels: Csv = None,
    csv: Out = None,
    figure: Figure = None,
    as_json: AsJson = False,
) -> None:
    """Score predictions against measurements; without a table, those that ship."""
    from experiments.score_progress import progress
    from experiments.scoreboard import score, summarise

    given = {"runs": runs, "collectives": collectives, "kernels": kernels}
    chosen = {kind: path for kind, path in given.items() if path is not None}
    chosen = chosen or {kind: SHIPPED / f"{kind}.csv" for kind in given}
    for kind, path in chosen.items():
        if not path.is_file():
            wrong = "this is a folder" if path.is_dir() else "there is no such file"
            raise InputError(f"--{kind} {path}: {wrong}; give the path of a CSV")
    tables: dict[str, list[Scored]] = {}
    for kind, path in chosen.items():
        with progress(f"scoring {kind}") as advance:
            tables[kind] = score(kind, path, advance)
    summaries = {kind: summarise(kind, scored) for kind, scored in tables.items()}
    rows = [answer for scored in tables.values() for _, answer in scored]
    if csv is not None:
        _write(csv, rows)
    if figure is not None:
        _draw(figure, tables)
    summary = summaries if len(summaries) > 1 else next(iter(summaries.values()))
    emit(
        {"summary": summary, "rows": rows},
        as_json,
        lambda: [p for kind in tables for p in _view(kind, summaries[kind], tables[kind])],
    )


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows' plain fields as a table."""
    import csv as table_file

    columns = dict.fromkeys(
        key for row in rows for key in row if key not in ("ledger", "assumptions")
    )
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = table_file.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def _draw(path: Path, tables: Mapping[str, Sequence["Scored"]]) -> None:
    from experiments.scoreboard_figure import scoreboard_figure

    scoreboard_figure(tables).savefig(path, dpi=150)


def _label(answer: Mapping[str, Any]) -> str:
    """Return what a row is about, in the words of its table."""
    return " ".join(str(answer[key]) for key in LABELS if answer.get(key) not in (None, ""))


def _error_row(name: str, found: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a line of a table of errors."""
    cells = [found.get(key) for key in ERRORS]
    return (name, *(_percent(key, cell) for key, cell in zip(ERRORS, cells, strict=True)))


def _percent(key: str, cell: Any) -> object:
    if not isinstance(cell, float):
        return cell
    return f"{cell:+.1%}" if key == "bias" else f"{cell:.1%}"


def _view(kind: str, summary: Mapping[str, Any], scored: Sequence["Scored"]) -> list[Any]:
    """Return the sum of a table, its sets and sources, the worst rows, and why rows were not scored."""
    from experiments.score_sets import TABLES
    from experiments.scoreboard import reasons, worst

    counts = [(key, value) for key, value in summary.items() if isinstance(value, int)]
    parts = [table(counts, ("rows", "count"), kind)]
    quantities = [q for q in TABLES[kind].quantities if q in summary]
    lines = [_error_row(q, summary[q]) for q in quantities]
    lines += [_error_row(name, found) for name, found in summary["sets"].items()]
    parts.append(
        table(
            lines,
            ("error of", *HEADS),
            f"errors over groups of equal {', '.join(TABLES[kind].group)}",
        )
    )
    lines = [_error_row(name[:NAME], found) for name, found in summary["by_source"].items()]
    parts.append(table(lines, ("source", *HEADS), SOURCES[kind]))
    counted = [item for item in scored if TABLES[kind].counts(item.row)]
    for quantity in quantities:
        found = [
            (answer["row"], _label(answer), f"{error:+.1%}")
            for error, (_, answer) in worst(counted, quantity)
        ]
        parts.append(table(found, ("row", "what", "error"), f"worst rows: {quantity}"))
    why = list(reasons(scored).items())[:REASONS]
    if why:
        parts.append(table(why, ("not scored because", "rows")))
    if kind == "runs":
        parts += _runs_view(summary)
    return parts


def _runs_view(summary: Mapping[str, Any]) -> list[Any]:
    """Return what only runs have: order of plans, coverage of bands."""
    order, band = summary["ranking"], summary["coverage"]
    lines = [
        ("rank correlation of plans of one model, hardware and size, mean", order["mean_spearman"]),
        ("groups of three such plans or more", order["groups"]),
        ("share of measured step times inside the 80 % band", band["inside"]),
    ]
    software = summary["software"]
    numbers = [
        (
            name,
            f"{number:g} {software['units'][name]}",
            ", ".join(software["fitted_on"][name]) or "no run",
        )
        for name, number in software["constants"].items()
    ]
    return [
        table(lines, ("plans and bands", "value")),
        table(numbers, ("constant of software", "value", "fitted on")),
        table(
            [
                (o["constant"], o["source"], f"{o['chosen']:g}", o["error"], o["shipped_error"])
                for o in software["cross_validation"]
            ],
            (
                "left out of the fit of",
                "source",
                "the others choose",
                "its error then",
                "as shipped",
            ),
        ),
        table(list(software["profiles"].items()), ("software profile", "what it is")),
        f"Bands are fitted on {', '.join(software['bands_fitted_on'])}; the others validate them.",
    ]
