"""The Gantt figure of a schedule: a row a rank, F, B, W and BW coloured, microbatches numbered."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from sim.palette import ACTION_PHASE, IDLE, PHASES, ink, mix, shade
from workloads.schedules.action import Entry
from workloads.schedules.timing import ScheduleTimes

LABELS = {
    "F": "F forward",
    "B": "B input gradient",
    "W": "W weight gradient",
    "BW": "BW fused backward",
}
FUSED = -0.2
"""A fused backward is darker than an input gradient by this share of black."""
MIN_LABEL = 0.012
"""A cell narrower than this part of the figure has no number."""


def gantt_figure(
    schedules: Sequence[tuple[str, ScheduleTimes]], *, width: float = 14.0, title: str = ""
) -> Figure:
    """Return the schedules under each other on one time axis, for comparison."""
    rows = sum(len(times.orders) for _, times in schedules)
    figure = Figure(figsize=(width, 0.9 + 0.55 * len(schedules) + 0.34 * rows), dpi=120)
    heights = [len(times.orders) + 0.5 for _, times in schedules]
    grid = figure.subplots(
        len(schedules), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    end = max(times.makespan for _, times in schedules)
    for (name, times), axes in zip(schedules, grid[:, 0], strict=True):
        _draw(axes, name, times, end)
    grid[-1, 0].set_xlabel("time (in the unit of the times given)")
    figure.legend(handles=_legend(schedules), loc="upper right", ncols=6, frameon=False, fontsize=9)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.32 / figure.get_figheight()))
    return figure


def _draw(axes: Axes, name: str, times: ScheduleTimes, end: float) -> None:
    ranks = len(times.orders)
    bubble = f"makespan {times.makespan:.6g}, bubble {times.bubble_fraction:.1%}"
    axes.set_title(f"{name}: {bubble}", loc="left", fontsize=10)
    for rank, order in enumerate(times.orders):
        axes.add_patch(Rectangle((0, rank + 0.06), times.makespan, 0.88, facecolor=IDLE.colour))
        for entry, start, stop in zip(order, times.starts[rank], times.ends[rank], strict=True):
            _cell(axes, entry, rank, start, stop - start, end, times.placement.chunks)
    axes.set_xlim(0, end)
    axes.set_ylim(ranks, 0)
    axes.set_yticks([rank + 0.5 for rank in range(ranks)], [str(rank) for rank in range(ranks)])
    axes.set_ylabel("rank")
    axes.tick_params(left=False)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _cell(
    axes: Axes, entry: Entry, rank: int, start: float, length: float, end: float, chunks: int
) -> None:
    """Draw one action; an overlapped pair as two halves, one above the other."""
    height = 0.88 / len(entry)
    for part, token in enumerate(entry):
        bottom = rank + 0.06 + part * height
        colour = _colour(token.kind, token.chunk, chunks)
        axes.add_patch(
            Rectangle(
                (start, bottom), length, height, facecolor=colour, edgecolor="white", linewidth=0.6
            )
        )
        if length / end >= MIN_LABEL:
            axes.text(
                start + length / 2,
                bottom + height / 2,
                str(token.microbatch),
                ha="center",
                va="center",
                fontsize=8 if len(entry) == 1 else 5.5,
                color=ink(colour),
            )


def _colour(kind: str, chunk: int, num_chunks: int) -> str:
    """Return the colour of an action (`sim.palette`): lighter for every chunk after the first."""
    colour = PHASES[ACTION_PHASE[kind]].colour
    return shade(mix(colour, FUSED) if kind == "BW" else colour, chunk, num_chunks)


def _legend(schedules: Sequence[tuple[str, ScheduleTimes]]) -> list[Patch]:
    used = {t.kind for _, s in schedules for order in s.orders for entry in order for t in entry}
    chunks = max(s.placement.chunks for _, s in schedules)
    handles = [
        Patch(color=_colour(kind, 0, chunks), label=LABELS[kind]) for kind in LABELS if kind in used
    ]
    handles.append(Patch(facecolor=IDLE.colour, edgecolor="lightgrey", label="idle"))
    if chunks > 1:
        last = _colour("F", chunks - 1, chunks)
        handles.append(Patch(color=last, label="lighter: later chunks"))
    return handles
