"""Memory over the step, stacked by category under the device's capacity; and the peaks of all places side by side."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sim.memory import MemoryCurve, memory_curve
from sim.palette import memory_colours
from sim.timeline import Timeline
from sim.units import GiB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 150
BINS = 1000
"""A curve is drawn with about so many steps."""


def memory_curve_figure(
    timeline: Timeline, rank_class: int, *, title: str | None = None
) -> "Figure":
    """Draw what a rank of the class holds over the step, GiB by category, with the capacity of its device."""
    from matplotlib.figure import Figure

    curve = _thinned(memory_curve(timeline, rank_class), timeline.step_time)
    device = timeline.cluster.device_kinds[timeline.device_kind(rank_class)]
    figure = Figure(figsize=(10.0, 3.2), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0.07, 0.13, 0.74, 0.77))
    _stack(axes, curve, timeline.step_time)
    capacity, peak = device.memory_bytes / GiB, float(curve.total.max()) / GiB
    axes.axhline(capacity, color="#b30000", lw=1.0, ls="--")
    axes.text(timeline.step_time, capacity, f"{device.name}: {capacity:.1f} GiB ", ha="right", va="bottom",
              fontsize=7.5, color="#b30000")  # fmt: skip
    at = float(curve.time[int(curve.total.argmax())])
    axes.plot([at], [peak], "v", color="#1a1a1a", ms=4)
    axes.set_ylim(0, 1.12 * max(capacity, peak))
    axes.set_xlim(0, timeline.step_time)
    axes.set_xlabel("time (s)", fontsize=8, labelpad=1)
    axes.set_ylabel("GiB", fontsize=8)
    axes.tick_params(labelsize=7.5, length=2)
    axes.spines[["top", "right"]].set_visible(False)
    place = timeline.place(rank_class)
    axes.set_title(title or f"live memory of pipeline place {place}: peak {peak:.1f} GiB at {at:.3g} s", fontsize=9,
                   loc="left")  # fmt: skip
    _legend_as_stacked(axes)
    return figure


def _legend_as_stacked(axes: "Axes") -> None:
    """Put the legend beside the chart, its topmost category first."""
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[::-1],
        labels[::-1],
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        fontsize=7.5,
        frameon=False,
    )


def _thinned(curve: MemoryCurve, end: float) -> MemoryCurve:
    """Keep, of the changes within one of `BINS` equal parts of the step, the fullest and the last."""
    if len(curve.time) <= 2 * BINS or end <= 0:
        return curve
    part = np.floor(curve.time / end * BINS)
    by_total = np.lexsort((curve.total, part))
    last_of = np.flatnonzero(np.diff(part, append=-1))
    kept = np.union1d(by_total[np.flatnonzero(np.diff(part[by_total], append=-1))], last_of)
    return MemoryCurve(curve.time[kept], curve.categories, curve.held[kept])


def _stack(axes: "Axes", curve: MemoryCurve, end: float) -> None:
    time = np.append(curve.time, end)
    floor = np.zeros(len(time))
    column = {category: i for i, category in enumerate(curve.categories)}
    for category, colour in memory_colours(curve.categories).items():
        held = curve.held[:, column[category]] / GiB
        top = floor + np.append(held, held[-1])
        if held.max() > 0:
            axes.fill_between(time, floor, top, step="post", color=colour, lw=0, label=category)
        floor = top


def memory_peaks_figure(
    breakdowns: Mapping[str, Mapping[str, float]],
    capacity: float,
    *,
    title: str = "peak memory by pipeline place",
) -> "Figure":
    """Draw the peak of each place, stacked by category (bytes), against the capacity (bytes)."""
    from matplotlib.figure import Figure

    categories = list(dict.fromkeys(c for part in breakdowns.values() for c in part))
    figure = Figure(figsize=(10.0, 3.0), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0.07, 0.15, 0.74, 0.74))
    floor = np.zeros(len(breakdowns))
    for category, colour in memory_colours(categories).items():
        held = np.array([part.get(category, 0.0) for part in breakdowns.values()]) / GiB
        axes.bar(
            range(len(breakdowns)), held, bottom=floor, color=colour, width=0.8, label=category
        )
        floor += held
    axes.axhline(capacity / GiB, color="#b30000", lw=1.0, ls="--")
    axes.set_xticks(range(len(breakdowns)), list(breakdowns))
    axes.set_xlim(-0.6, max(len(breakdowns), 4) - 0.4)
    axes.set_ylim(0, 1.12 * max(capacity / GiB, float(floor.max(initial=0.0))))
    axes.set_ylabel("GiB", fontsize=8)
    axes.set_xlabel("pipeline place", fontsize=8, labelpad=1)
    axes.tick_params(labelsize=7.5, length=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=9, loc="left")
    _legend_as_stacked(axes)
    return figure
