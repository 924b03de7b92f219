"""``scoreboard``: predicted against measured, row by row and in sum."""

import statistics
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli_output import AsJson, emit, table, working
from sim.errors import InputError

SCORERS = {
    "runs": "experiments.score_runs:score_runs",
    "collectives": "experiments.score_collectives:score_collectives",
    "kernels": "experiments.score_kernels:score_kernels",
}
"""The function that scores a table, by the kind of its rows; imported when asked for."""
MEASURED = ("step_time_s", "time_s", "peak_memory_bytes")
LABELS = ("id", "hardware", "device", "collective", "kernel", "dtype", "n_devices", "bytes")
WORST = 10
Csv = Annotated[Path | None, typer.Option(metavar="CSV", help="Score this table.")]


def scoreboard(
    runs: Csv = None, collectives: Csv = None, kernels: Csv = None, as_json: AsJson = False
) -> None:
    """Score predictions against measurements."""
    given = {"runs": runs, "collectives": collectives, "kernels": kernels}
    chosen = {kind: path for kind, path in given.items() if path is not None}
    if len(chosen) != 1:
        raise InputError("give one table: --runs CSV, --collectives CSV or --kernels CSV")
    ((kind, path),) = chosen.items()
    if not path.is_file():
        raise InputError(f"--{kind} {path}: there is no such file")
    module, _, function = SCORERS[kind].partition(":")
    with working(f"scoring {kind}"):
        rows: list[dict[str, Any]] = getattr(import_module(module), function)(path)
    summary = summarise(rows)
    emit({"summary": summary, "rows": rows}, as_json, lambda: _view(summary, rows))


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many rows have each status, and of each measured quantity the errors' median, p90 and bias."""
    statuses = [row["status"] for row in rows]
    summary: dict[str, Any] = {"num_rows": len(rows)}
    summary |= {status: statuses.count(status) for status in ("ok", "unsupported", "invalid")}
    for quantity in MEASURED:
        errors = [e for row in rows if (e := signed_error(row, quantity)) is not None]
        if errors:
            sizes = sorted(map(abs, errors))
            summary[quantity] = {
                "scored": len(errors),
                "median_abs_error": statistics.median(sizes),
                "p90_abs_error": sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
                "bias": statistics.median(errors),
            }
    return summary


def signed_error(row: Mapping[str, Any], quantity: str) -> float | None:
    """Return predicted over measured minus one, or None where either is missing."""
    predicted, measured = row.get(f"predicted_{quantity}"), row.get(f"measured_{quantity}")
    return predicted / measured - 1.0 if row["status"] == "ok" and predicted and measured else None


def _label(row: Mapping[str, Any]) -> str:
    """Return what a row is about, in the words of its table."""
    return " ".join(str(row[key]) for key in LABELS if row.get(key) not in (None, ""))


def _view(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the summary, the worst rows, and why rows were not scored."""
    counts = [(key, value) for key, value in summary.items() if isinstance(value, int)]
    parts = [table(counts, ("rows", "count"))]
    for quantity in MEASURED:
        if quantity not in summary:
            continue
        parts.append(table(list(summary[quantity].items()), (quantity, "value")))
        errors = [(e, row) for row in rows if (e := signed_error(row, quantity)) is not None]
        worst = sorted(errors, key=lambda item: -abs(item[0]))[:WORST]
        lines = [(row["row"], _label(row), f"{error:+.1%}") for error, row in worst]
        parts.append(table(lines, ("row", "what", "error"), "worst rows"))
    reasons: dict[str, int] = {}
    for row in rows:
        if row["status"] != "ok":
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
    if reasons:
        ranked = sorted(reasons.items(), key=lambda item: -item[1])[:WORST]
        parts.append(table(ranked, ("not scored because", "rows")))
    return parts
