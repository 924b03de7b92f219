"""Figure of a scoreboard: predicted against measured on log axes, one colour a family of sources, a +-10 % band."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.score_sets import TABLES, family
from experiments.scoreboard import Scored, signed_error
from experiments.study_figure import figure
from sim.units import GiB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WITHIN = 0.10
NAMED = 11
"""Families with a colour of their own, the largest; the others share grey."""
COLOURS = (
    "#1f5fa8", "#e2571e", "#07594f", "#c2347f", "#b98a00", "#7d54b8", "#2aa198", "#8c4a1f",
    "#74a9e8", "#d98cb3", "#556b2f",
)  # fmt: skip
GREY = "#b0b0b0"
TITLES = {
    "step_time_s": "step time of measured runs, s",
    "peak_memory_bytes": "peak memory of measured runs, GiB",
    "time_s": "time of measured {kind}, s",
}
NARROW = 300.0
"""Largest over smallest value up to which ticks between decades are labelled."""
UNITS = {"peak_memory_bytes": GiB}
HEIGHT = 6.0


def scoreboard_figure(tables: Mapping[str, Sequence[Scored]]) -> "Figure":
    """Return the figure: a panel for every quantity of every table."""
    panels = [
        (kind, q)
        for kind in tables
        for q in TABLES[kind].quantities
        if _points(kind, tables[kind], q)
    ]
    made, charts = figure(_title(tables), max(1, len(panels)), height=HEIGHT)
    made.set_size_inches(6.6 * max(1, len(panels)), HEIGHT)
    for axes, (kind, quantity) in zip(charts, panels, strict=False):
        _panel(axes, _points(kind, tables[kind], quantity), TITLES[quantity].format(kind=kind))
    return made


Points = dict[str, list[tuple[float, float]]]


def _points(kind: str, scored: Sequence[Scored], quantity: str) -> Points:
    """Return (measured, predicted) of the rows that count, by family of sources, the largest first."""
    table = TABLES[kind]
    found: Points = defaultdict(list)
    for row, answer in scored:
        if table.counts(row) and signed_error(answer, quantity) is not None:
            name = row.get(table.family) or "not stated"
            name = family(name) if table.family == "id" else name.split("@")[0].split(" ")[0]
            unit = UNITS.get(quantity, 1.0)
            pair = (answer[f"measured_{quantity}"] / unit, answer[f"predicted_{quantity}"] / unit)
            found[name].append(pair)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _title(tables: Mapping[str, Sequence[Scored]]) -> str:
    """Return what the figure finds: how many predictions are how close."""
    sizes = [
        abs(error)
        for kind, scored in tables.items()
        for row, answer in scored
        if TABLES[kind].counts(row)
        and (error := signed_error(answer, TABLES[kind].quantities[0])) is not None
    ]
    if not sizes:
        return "No row could be scored"
    near = np.mean(np.asarray(sizes) <= WITHIN)
    return f"{near:.0%} of {len(sizes):,} predictions are within {WITHIN:.0%} of the measurement"


def _panel(axes: "Axes", points: Points, title: str) -> None:
    """Draw one cloud, the diagonal and its band."""
    values = [value for pairs in points.values() for pair in pairs for value in pair]
    low, high = min(values) / 1.5, max(values) * 1.5
    ends = np.array([low, high])
    axes.fill_between(ends, ends * (1.0 - WITHIN), ends * (1.0 + WITHIN), color="#d9e6f5", zorder=0)
    axes.plot(ends, ends, color="#5a5a5a", linewidth=0.8, zorder=1)
    names = list(points)
    others = [pair for name in names[NAMED:] for pair in points[name]]
    if others:
        _cloud(axes, others, GREY, f"{len(names) - NAMED} others ({len(others)})")
    for name, colour in zip(names[:NAMED], COLOURS, strict=False):
        _cloud(axes, points[name], colour, f"{name[:28]} ({len(points[name])})")
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), title=title)
    axes.set(xlabel="measured", ylabel="predicted")
    _ticks(axes, narrow=high / low < NARROW)
    axes.legend(fontsize=7.5, loc="upper left", frameon=False, handletextpad=0.2)
    axes.text(0.98, 0.03, "band: +-10 %", transform=axes.transAxes, ha="right", fontsize=8)


def _ticks(axes: "Axes", *, narrow: bool) -> None:
    """Label 1, 2 and 5 of each decade where there are few decades, else each decade."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        if narrow:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FormatStrFormatter("%g"))
        axis.set_minor_formatter(NullFormatter())


def _cloud(axes: "Axes", pairs: Sequence[tuple[float, float]], colour: str, label: str) -> None:
    measured, predicted = zip(*pairs, strict=True)
    axes.scatter(measured, predicted, s=16, color=colour, alpha=0.75, linewidths=0, label=label)
