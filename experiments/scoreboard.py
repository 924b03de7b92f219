"""Scoreboard: scored tables in sum. Every group (source, model, hardware) counts once, however many rows it has."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.bands import FIT
from experiments.row_table import read_rows
from experiments.row_text import Row
from experiments.score_sets import TABLES, Keep, Table, every, family, value
from experiments.software_constants import SOFTWARE_CONSTANTS, cross_validation
from workloads import software

Progress = Callable[[int, int], None]
WORST = 15
"""Rows listed as the worst."""
RANKED = 3
"""Plans of one model, hardware and size from which their order is judged."""
STATUSES = ("ok", "unsupported", "invalid")


class Scored(NamedTuple):
    """A row of the table and its answer."""

    row: Row
    answer: dict[str, Any]


def score(kind: str, path: Path, progress: Progress | None = None) -> list[Scored]:
    """Return the rows of a table with their answers, in its order; each answer has its ``table``.

    Raises `InputError` where the file is no table.
    """
    rows = read_rows(path)
    module, _, name = TABLES[kind].scorer.partition(":")
    scorer = getattr(import_module(module), name)
    answers = scorer(path, progress) if kind == "runs" else scorer(path)
    return [Scored(row, {"table": kind, **a}) for row, a in zip(rows, answers, strict=True)]


def signed_error(answer: Mapping[str, Any], quantity: str) -> float | None:
    """Return predicted over measured minus one, or None where either is missing."""
    predicted, measured = answer.get(f"predicted_{quantity}"), answer.get(f"measured_{quantity}")
    return (
        predicted / measured - 1.0 if answer["status"] == "ok" and predicted and measured else None
    )


def errors(
    scored: Sequence[Scored], quantity: str, table: Table, keep: Keep = every
) -> dict[str, Any]:
    """Return medians over groups of the rows kept: of errors' sizes, their 90th percentile, and of signed errors.

    ``scored`` of ``measured`` rows; a group's error is the median of its rows'. Empty where nothing was measured.
    """
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    measured = 0
    for row, answer in scored:
        if not answer.get(f"measured_{quantity}") or not keep(row):
            continue
        measured += 1
        error = signed_error(answer, quantity)
        if error is not None:
            groups[tuple(row.get(column) or "" for column in table.group)].append(error)
    if not groups:
        return {"measured": measured, "scored": 0} if measured else {}
    sizes = np.sort([np.median(np.abs(found)) for found in groups.values()])
    return {
        "measured": measured,
        "scored": sum(map(len, groups.values())),
        "groups": len(groups),
        "median_abs_error": float(np.median(sizes)),
        "p90_abs_error": float(sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))]),
        "bias": float(np.median([np.median(found) for found in groups.values()])),
    }


def summarise(kind: str, scored: Sequence[Scored]) -> dict[str, Any]:
    """Return the sum of one table: how many rows have each status, and the errors of each quantity and set."""
    table = TABLES[kind]
    statuses = [answer["status"] for _, answer in scored]
    summary: dict[str, Any] = {"num_rows": len(scored)}
    summary |= {status: statuses.count(status) for status in STATUSES}
    counted = [item for item in scored if table.counts(item.row)]
    summary["num_counted"] = len(counted)
    for quantity in table.quantities:
        found = errors(counted, quantity, table)
        if found:
            summary[quantity] = found
    first = table.quantities[0]
    summary["sets"] = {
        name: found
        for name, keep in table.sets.items()
        if (found := errors(counted, first, table, keep))
    }
    summary["by_source"] = by_source(counted, first, table)
    if kind == "runs":
        summary["ranking"] = ranking(counted)
        summary["coverage"] = coverage(counted)
        summary["memory_by_source"] = by_source(counted, table.quantities[1], table)
        summary["software"] = constants()
    return summary


def constants() -> dict[str, Any]:
    """Return the software profiles, the numeric constants of software, and the families of runs each was fitted on."""
    profiles = {name: profile.description for name, profile in software.SOFTWARE.items()}
    return {
        "profiles": profiles,
        "constants": {name: c.value() for name, c in SOFTWARE_CONSTANTS.items()},
        "units": {name: c.unit for name, c in SOFTWARE_CONSTANTS.items()},
        "fitted_on": {name: list(c.fitted_on) for name, c in SOFTWARE_CONSTANTS.items()},
        "cross_validation": [out._asdict() for out in cross_validation()],
        "bands_fitted_on": list(FIT),
    }


def by_source(scored: Sequence[Scored], quantity: str, table: Table) -> dict[str, Any]:
    """Return the errors of every source: each one is left out of nothing that was fitted on the others."""
    sources: dict[str, list[Scored]] = defaultdict(list)
    for item in scored:
        name = item.row.get(table.family) or ""
        sources[family(name) if table.family == "id" else name].append(item)
    return {
        name: found
        for name, items in sorted(sources.items())
        if (found := errors(items, quantity, table))
    }


def ranking(scored: Sequence[Scored]) -> dict[str, Any]:
    """Return the rank correlation (Spearman) of tokens/s of plans of one model, hardware and size, mean over groups."""
    groups: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    for row, answer in scored:
        predicted, measured = (
            answer.get("predicted_step_time_s"),
            answer.get("measured_step_time_s"),
        )
        if answer["status"] == "ok" and predicted and measured:
            key = tuple(row.get(column) or "" for column in ("model", "hardware", "gpus"))
            tokens = value(row, "global_batch_sequences") * value(row, "seq_len")
            groups[key].append((tokens / predicted, tokens / measured))
    found = [spearman(*zip(*g, strict=True)) for g in groups.values() if len(set(g)) >= RANKED]
    known = [r for r in found if r is not None]
    return {"groups": len(known), "mean_spearman": float(np.mean(known)) if known else None}


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the rank correlation of two lists, ties at their mean rank; None where one list is constant.

    >>> spearman([1, 2, 3], [10, 30, 20]), spearman([1, 1], [1, 2])
    (0.5, None)
    """
    a, b = _ranks(first), _ranks(second)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return round(float(a @ b) / size, 12) if size else None


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, place, count = np.unique(
        np.asarray(values, dtype=float), return_inverse=True, return_counts=True
    )
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2.0)[place])


def coverage(scored: Sequence[Scored]) -> dict[str, float | int]:
    """Return the share of measured step times inside their band."""
    inside = [
        answer["low_step_time_s"] <= answer["measured_step_time_s"] <= answer["high_step_time_s"]
        for _, answer in scored
        if signed_error(answer, "step_time_s") is not None
    ]
    return {"rows": len(inside), "inside": float(np.mean(inside)) if inside else 0.0}


def worst(scored: Sequence[Scored], quantity: str) -> list[tuple[float, Scored]]:
    """Return the rows whose error is the largest, with it."""
    found = [(e, item) for item in scored if (e := signed_error(item.answer, quantity)) is not None]
    return sorted(found, key=lambda pair: -abs(pair[0]))[:WORST]


def reasons(scored: Sequence[Scored]) -> dict[str, int]:
    """Return why rows were not scored, and how many for each reason, most first."""
    count: dict[str, int] = defaultdict(int)
    for _, answer in scored:
        if answer["status"] != "ok":
            count[f"{answer['status']}: {answer['reason']}"] += 1
    return dict(sorted(count.items(), key=lambda item: -item[1]))
