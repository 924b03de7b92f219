"""Gantt chart of a step: a row a pipeline place (rank class), its kernels and, thinner below, its communication."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.errors import InputError
from sim.lanes import (
    Detail,
    Lane,
    Window,
    axis_of,
    communication_lane,
    compute_lane,
    host_lane,
    inside,
    kernel_seconds,
    num_chunks,
    transfers,
)
from sim.palette import AXES, IDLE, ink, rgb
from sim.plot.rows import FEW, row_name, shown_classes
from sim.program import Compute, Merged
from sim.timeline import Span, StreamRecord, Timeline
from sim.units import ms, us

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, DPI = 14.0, 150
MARGINS = 1.0
"""Inches of the width that are not the chart."""
THIN_LANE, STREAM_LANE, ROW_GAP = 0.2, 0.7, 0.22
INCHES, INCHES_FEW = 0.25, 0.36
"""Height of a stream that computes."""
FONT, CHARACTER = 6.5, 0.62
"""Size of text in bars (points), and the width of a character in sizes."""
KERNEL_PIXELS = 7.0
"""Kernels are drawn one by one where half of them are at least this wide."""
MAX_TEXTS = 3000
PHASE_ORDER = ("forward", "backward", "input gradient", "weight gradient", "recompute", "optimizer")


def gantt(
    timeline: Timeline,
    *,
    window: Window | None = None,
    rank_classes: Sequence[int] | None = None,
    detail: Detail | None = None,
    title: str | None = None,
    width: float = WIDTH,
) -> "Figure":
    """Draw a timeline over ``window`` (s; default the step), one row a rank class; ``width`` in inches.

    ``detail``: bars of whole actions, or of kernels (default: kernels where wide enough). Raises `InputError` for an
    empty window.
    """
    low, high = window or (0.0, timeline.step_time)
    if not low < high:
        raise InputError(f"window {low}:{high} is empty; give two times in s, the earlier first")
    shown = list(rank_classes) if rank_classes is not None else shown_classes(timeline)
    pixel = (high - low) / ((width - MARGINS) * DPI)
    lanes = timeline_lanes(timeline, shown, (low, high), pixel, detail)
    busy = sum(kernel_seconds(timeline, c) for c in shown) / max(len(shown), 1) / timeline.step_time
    caption = title or (
        f"one step on {timeline.program.num_ranks:,} devices: {_time(timeline.step_time)}, kernels run"
        f" {busy:.0%} of it; blank is idle"
    )
    if high < timeline.step_time or low > 0:
        caption += f"; {low:.6g} to {high:.6g} s"
    if num_chunks(timeline) > 1:
        caption += f"; {num_chunks(timeline)} chunks, the first darkest"
    if len(shown) < timeline.num_classes:
        caption += f"; {len(shown)} of {timeline.num_classes:,} rank classes, those alike once"
    names = {c: row_name(timeline, c, shown) for c in shown}
    return draw_lanes(lanes, (low, high), names=names, title=caption, width=width)


def timeline_lanes(
    timeline: Timeline, shown: Sequence[int], window: Window, pixel: float, detail: Detail | None
) -> list[Lane]:
    """Return the lanes of rank classes: by stream where there are few classes, else by axis."""
    streams = [s for c in shown for s in timeline.streams_of[c]]
    chosen: Detail = detail or _detail([s for s in streams if s.computes], window, pixel)
    chunks, axes = num_chunks(timeline), _axes_present(streams, window)
    lanes: list[Lane] = []
    for c in shown:
        own = sorted(timeline.streams_of[c], key=lambda s: s.name)
        spans = {s.index: inside(s, window) for s in own}
        talk = {index: transfers(found) for index, found in spans.items()}
        computing = [s for s in own if s.computes]
        few = len(shown) <= FEW
        if few:
            hosts = [
                host_lane(s, window, height=STREAM_LANE, threshold=4 * pixel) for s in computing
            ]
            lanes += [lane for lane in hosts if lane]
        lanes += [compute_lane(s, spans[s.index], pixel, chosen, chunks) for s in computing]
        if few:
            lanes += _stream_lanes(own, talk, pixel, blocking=chosen == "actions")
        else:
            every = [x for s in own for x in talk[s.index]]
            lanes += [
                communication_lane(
                    axis,
                    c,
                    [x for x in every if axis_of(x.op) == axis],
                    pixel,
                    height=THIN_LANE,
                    names=False,
                )
                for axis in axes
            ]
    return lanes


def _stream_lanes(
    streams: Sequence[StreamRecord], talk: Mapping[int, list[Span]], pixel: float, *, blocking: bool
) -> list[Lane]:
    """Return a lane for each stream's transfers; those of streams that compute together, if ``blocking``."""
    held = [x for s in streams if s.computes for x in talk[s.index]] if blocking else []
    named = [("blocking", held)] + [(s.name, talk[s.index]) for s in streams if not s.computes]
    return [
        communication_lane(
            name, streams[0].rank_class, found, pixel, height=STREAM_LANE, names=True
        )
        for name, found in named
        if found
    ]


def _axes_present(streams: Iterable[StreamRecord], window: Window) -> list[str]:
    """Axes that take time, in the palette's order."""
    low, high = window
    ops = {id(s[0]): s[0] for stream in streams for s in stream.spans if s[4] > low and s[3] < high}
    found = {
        axis_of(part)
        for op in ops.values()
        for part in (op.ops if isinstance(op, Merged) else (op,))
    }
    return [a for a in AXES if a in found] + sorted(found - set(AXES) - {"", "model", "embedding"})


def _detail(streams: Sequence[StreamRecord], window: Window, pixel: float) -> Detail:
    """Choose by the first stream that has kernels in the window, beginning in the middle."""
    for stream in [*streams[len(streams) // 2 :], *streams[: len(streams) // 2]]:
        widths = [s.end - s.start for s in inside(stream, window) if isinstance(s.op, Compute)]
        if widths:
            return "kernels" if float(np.median(widths)) > KERNEL_PIXELS * pixel else "actions"
    return "actions"


def draw_lanes(
    lanes: Sequence[Lane],
    window: Window,
    *,
    names: Mapping[int, str],
    title: str,
    width: float = WIDTH,
) -> "Figure":
    """Draw lanes from the top down, those of a rank class together, under the ``names`` of the classes."""
    from matplotlib.figure import Figure

    tops, total = _stack(lanes)
    scale = INCHES_FEW if len(names) <= FEW else INCHES
    height = min(max(total * scale, 0.5) + 1.15, 40.0)
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0.055, 0.76 / height, 0.935, 1.0 - 1.1 / height))
    factor, symbol = _scale(window)
    _draw_bars(axes, lanes, tops, factor)
    _write_texts(axes, lanes, tops, factor, window, (width - MARGINS) * 72)
    axes.set_xlim(window[0] * factor, window[1] * factor)
    axes.set_ylim(total, 0)
    _label_rows(axes, lanes, tops, names)
    axes.set_xlabel(f"time ({symbol})", fontsize=8, labelpad=2)
    axes.set_title(title, fontsize=9, loc="left", pad=5)
    axes.tick_params(labelsize=7.5, length=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    _legend(figure, lanes)
    return figure


def _stack(lanes: Sequence[Lane]) -> tuple[list[float], float]:
    """Top of every lane, and the height of all; classes are set apart."""
    tops, y = [], 0.0
    before: int | None = None
    for lane in lanes:
        if before is not None and lane.rank_class != before:
            y += ROW_GAP
        tops.append(y)
        y += lane.height + 0.04
        before = lane.rank_class
    return tops, max(y, 1.0)


def _draw_bars(axes: "Axes", lanes: Sequence[Lane], tops: Sequence[float], factor: float) -> None:
    from matplotlib.collections import PolyCollection

    boxes: list[tuple[float, float, float, float]] = []
    colours: list[tuple[float, float, float, float]] = []
    known: dict[str, tuple[float, float, float]] = {}
    for lane, top in zip(lanes, tops, strict=True):
        axes.axhspan(top, top + lane.height, color=IDLE.colour, lw=0, zorder=0)
        bottom = top + lane.height
        for bar in lane.bars:
            if bar.colour not in known:
                known[bar.colour] = rgb(bar.colour)
            boxes.append(
                (bar.start * factor, bar.end * factor, bottom - lane.height * bar.height, bottom)
            )
            colours.append((*known[bar.colour], bar.solid))
    if not boxes:
        return
    left, right, upper, lower = np.array(boxes).T
    corners = np.stack([left, upper, right, upper, right, lower, left, lower], axis=1)
    collection = PolyCollection(
        list(corners.reshape(-1, 4, 2)), facecolors=np.array(colours), linewidths=0, zorder=1
    )
    axes.add_collection(collection, autolim=False)
    _separate(axes, left, right, upper, lower)


def _separate(axes: "Axes", left: Any, right: Any, upper: Any, lower: Any) -> None:
    """Draw a white line at the left of bars wide enough to spare it."""
    from matplotlib.collections import LineCollection

    span = float(right.max() - left.min()) or 1.0
    wide = (right - left) > span * 4.0 / (WIDTH * DPI)
    points = np.stack([left, upper, left, lower], axis=1)[wide].reshape(-1, 2, 2)
    axes.add_collection(
        LineCollection(points.tolist(), colors="white", linewidths=0.5, zorder=2), autolim=False
    )


def _write_texts(
    axes: "Axes",
    lanes: Sequence[Lane],
    tops: Sequence[float],
    factor: float,
    window: Window,
    points: float,
) -> None:
    """Write the texts that fit ``points`` of width: of numbers, only where the longest of the lane would."""
    low, high = window
    written = 0
    for lane, top in zip(lanes, tops, strict=True):
        digits = max((len(bar.text) for bar in lane.bars if bar.text.isdigit()), default=0)
        for bar in lane.bars:
            if not bar.text or written >= MAX_TEXTS:
                continue
            left, right = max(bar.start, low), min(bar.end, high)
            room = (right - left) * points / (high - low)
            need = FONT * CHARACTER * (digits + 0.3 if bar.text.isdigit() else len(bar.text))
            if room < need * 0.85:
                continue
            axes.text(
                (left + right) / 2 * factor, top + lane.height * 0.52, bar.text,
                fontsize=FONT if room > need * 1.1 else FONT * 0.8,
                ha="center", va="center", color=ink(bar.colour), zorder=3, clip_on=True,
            )  # fmt: skip
            written += 1


def _label_rows(
    axes: "Axes", lanes: Sequence[Lane], tops: Sequence[float], names: Mapping[int, str]
) -> None:
    ticks, labels = [], []
    if len(names) <= FEW and any(lane.height < 1 for lane in lanes):
        for lane, top in zip(lanes, tops, strict=True):
            ticks.append(top + lane.height / 2)
            labels.append(lane.name)
        axes.set_ylabel(", ".join(names.values()), fontsize=8)
    else:
        seen: set[int] = set()
        for lane, top in zip(lanes, tops, strict=True):
            if lane.rank_class not in seen:
                seen.add(lane.rank_class)
                ticks.append(top + lane.height / 2)
                labels.append(names[lane.rank_class])
        if all(name.isdigit() for name in names.values()):
            axes.set_ylabel("pipeline place", fontsize=8)
    axes.set_yticks(ticks, labels)


def _legend(figure: "Figure", lanes: Sequence[Lane]) -> None:
    """Name each colour once, in the mean of its shades, phases first."""
    from matplotlib.patches import Patch

    found: dict[str, list[str]] = {}
    for lane in lanes:
        for bar in lane.bars:
            shades = found.setdefault(bar.label, [])
            if bar.colour not in shades:
                shades.append(bar.colour)
    order = sorted(
        found, key=lambda label: (PHASE_ORDER.index(label) if label in PHASE_ORDER else 99, label)
    )
    patches = [
        Patch(facecolor=np.mean([rgb(colour) for colour in found[label]], axis=0), label=label)
        for label in order
    ]
    patches.append(Patch(facecolor=IDLE.colour, edgecolor="#bbbbbb", lw=0.5, label="idle"))
    columns = -(-len(patches) // -(-len(patches) // 10))
    figure.legend(
        handles=patches, loc="lower center", ncols=columns, fontsize=7.5, frameon=False,
        handlelength=1.2, handleheight=0.9, columnspacing=1.2, bbox_to_anchor=(0.52, 0.0),
    )  # fmt: skip


def _scale(window: Window) -> tuple[float, str]:
    """Return what to multiply seconds by, and the symbol of the result."""
    length = window[1] - window[0]
    if length >= 0.5:
        return 1.0, "s"
    return (1.0 / ms, "ms") if length >= 0.5 * ms else (1.0 / us, "us")


def _time(seconds: float) -> str:
    factor, symbol = _scale((0.0, seconds))
    return f"{seconds * factor:.3g} {symbol}"
