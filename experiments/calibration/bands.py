"""Fit the bands of predicted step times: ``python -m experiments.calibration.bands [RUNS.csv] [--write]``.

Scores the table, then takes quantiles of measured over predicted on the families of sources named in
`experiments.bands.FIT`; the share of the other families' rows inside each band is printed beside it.
"""

import csv
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from experiments.bands import FILE, FIT, Band
from experiments.score_sets import CATEGORIES, category, clean, family
from experiments.scoreboard import Scored, score, signed_error

LOW, HIGH = 0.1, 0.9
ENOUGH = 12
"""Rows from which a category has a band of its own."""
NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def ratios(scored: Sequence[Scored], fit: bool) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield (category, group, measured over predicted) of the clean rows of one half of the families."""
    for row, answer in scored:
        error = signed_error(answer, "step_time_s")
        if error is None or not clean(row) or (family(row["id"]) in FIT) != fit:
            continue
        group = (family(row["id"]), *(row[column] for column in ("source", "model", "hardware")))
        yield category(row), group, 1.0 / (1.0 + error)


def fit_band(found: Sequence[tuple[str, tuple[str, ...], float]]) -> Band:
    """Return the band of some rows, each family of as much weight; the prediction itself is always inside."""
    values = np.array([ratio for _, _, ratio in found])
    families = Counter(group[0] for _, group, _ in found)
    weights = np.array([1.0 / families[group[0]] for _, group, _ in found])
    low, high = weighted_quantiles(values, weights, (LOW, HIGH))
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for _, group, ratio in found:
        groups[group].append(np.log(ratio))
    inside = [abs(x - np.median(g)) for g in groups.values() if len(g) > 2 for x in g]
    spread = NORMAL * float(np.median(inside)) if inside else float(np.log(high / low)) / 2.56
    return Band(min(1.0, float(low)), max(1.0, float(high)), spread)


def weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, shares: Sequence[float]
) -> tuple[float, ...]:
    """Return the values below which some shares of the weight lie.

    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), (0.25, 0.5))
    (1.0, 2.0)
    """
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return tuple(float(values[order][np.searchsorted(reached, share)]) for share in shares)


def fit_bands(scored: Sequence[Scored]) -> dict[str, tuple[Band, int]]:
    """Return the band of each category with rows enough, and of all (``""``), with how many rows it was fitted on."""
    rows = list(ratios(scored, fit=True))
    chosen = {name: [r for r in rows if r[0] == name] for name in CATEGORIES} | {"": rows}
    return {
        name: (fit_band(found), len(found))
        for name, found in chosen.items()
        if len(found) >= (ENOUGH if name else 1)
    }


def main(arguments: Sequence[str]) -> None:
    """Fit, print, and with ``--write`` write."""
    names = [a for a in arguments if not a.startswith("-")]
    scored = score("runs", Path(names[0]) if names else FILE.with_name("runs.csv"))
    fitted = fit_bands(scored)
    others = list(ratios(scored, fit=False))
    for name, (band, count) in fitted.items():
        inside = [band.low <= r <= band.high for c, _, r in others if not name or c == name]
        share = f"{np.mean(inside):.0%} of {len(inside)}" if inside else "no"
        sys.stdout.write(
            f"{name or 'all':28} {count:4} rows  x{band.low:.3f} .. x{band.high:.3f}  order {band.order:.3f}  "
            f"holds {share} rows of the other sources\n"
        )
    if "--write" in arguments:
        with FILE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("category", "low", "high", "order", "rows"))
            for name, (band, count) in fitted.items():
                writer.writerow(
                    (name, *(round(v, 4) for v in (band.low, band.high, band.order)), count)
                )


if __name__ == "__main__":
    main(sys.argv[1:])
