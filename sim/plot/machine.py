"""The machine as tiers: kinds of devices and switches as boxes, links between them coloured by their use."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sim.palette import ink, mix
from sim.plot.links import DPI, LinkUse
from sim.timeline import Timeline
from sim.units import GB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Place = tuple[float, float]
BOX = (0.24, 0.5)
"""Width and height of a box, in columns and tiers."""
BUSY = "#b03060"


def machine_figure(timeline: Timeline, uses: Sequence[LinkUse], *, title: str = "") -> "Figure":
    """Draw the kinds of vertices of a cluster, devices at the foot, and the use of the links between them.

    ``uses``: those of `sim.plot.link_use`. A link's colour is the mean share of its capacity used over the step.
    """
    from matplotlib.figure import Figure

    counts = _counts(timeline)
    places = _places(uses, counts)
    tiers = 1 + max(y for _, y in places.values())
    figure = Figure(figsize=(10.0, 0.95 * tiers + 0.5), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.9))
    for pair, both in _pairs(uses).items():
        _link(axes, places[pair[0]], places[pair[1]], both)
    for kind, (x, y) in places.items():
        _box(axes, x, y, f"{counts[kind]:,} x {_kind_name(timeline, kind)}")
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.45, tiers - 0.5)
    axes.axis("off")
    axes.set_title(
        title or f"{timeline.cluster.name}: use of links over the step", fontsize=9, loc="left"
    )
    return figure


def _counts(timeline: Timeline) -> dict[str, int]:
    """How many there are of each kind, a vertex that stands for several counted so."""
    counts: dict[str, int] = {}
    for kind, count in zip(
        timeline.cluster.vertex_kind, timeline.cluster.vertex_count.tolist(), strict=True
    ):
        counts[kind] = counts.get(kind, 0) + int(count)
    return counts


def _kind_name(timeline: Timeline, kind: str) -> str:
    names = [device.name for device in timeline.cluster.device_kinds]
    return ", ".join(dict.fromkeys(names)) if kind == "device" else kind


def _places(uses: Sequence[LinkUse], counts: Mapping[str, int]) -> dict[str, Place]:
    """Put each kind at its distance from the devices; kinds at one distance side by side."""
    tier = {"device": 0}
    grown = True
    while grown:
        grown = False
        for use in uses:
            if use.src in tier and use.dst not in tier:
                tier[use.dst] = tier[use.src] + 1
                grown = True
    for kind in counts:
        tier.setdefault(kind, 0)
    found: dict[str, Place] = {}
    for level in set(tier.values()):
        here = [kind for kind in counts if tier[kind] == level]
        found |= {kind: ((i + 0.5) / len(here), float(level)) for i, kind in enumerate(here)}
    return found


def _pairs(uses: Sequence[LinkUse]) -> dict[tuple[str, str], list[LinkUse]]:
    """Links of both directions together."""
    found: dict[tuple[str, str], list[LinkUse]] = {}
    for use in uses:
        key = (use.dst, use.src) if (use.dst, use.src) in found else (use.src, use.dst)
        found.setdefault(key, []).append(use)
    return found


def _link(axes: "Axes", a: Place, b: Place, uses: Sequence[LinkUse]) -> None:
    mean = max(use.mean for use in uses)
    largest = max(use.largest for use in uses)
    colour = mix(BUSY, 0.85 * (1.0 - min(2.0 * mean, 1.0)))
    text = f"{uses[0].number:,} x {uses[0].bandwidth / GB:,.0f} GB/s ({uses[0].kind}): {mean:.0%}"
    if largest > 1.05 * mean:
        text += f", busiest {largest:.0%}"
    if a == b:
        axes.text(
            a[0],
            a[1] + BOX[1] / 2 + 0.06,
            f"among themselves {text}",
            ha="center",
            va="bottom",
            fontsize=7.5,
        )
        return
    axes.plot([a[0], b[0]], [a[1], b[1]], color=colour, lw=7, solid_capstyle="butt", zorder=1)
    axes.text(
        (a[0] + b[0]) / 2, (a[1] + b[1]) / 2, text, ha="center", va="center", fontsize=7.5, zorder=2,
        bbox={"facecolor": "white", "edgecolor": colour, "lw": 0.6, "pad": 1.5},
    )  # fmt: skip


def _box(axes: "Axes", x: float, y: float, text: str) -> None:
    from matplotlib.patches import Rectangle

    fill = "#e6ecf5"
    width, height = BOX
    axes.add_patch(
        Rectangle(
            (x - width / 2, y - height / 2),
            width,
            height,
            facecolor=fill,
            edgecolor="#7a8699",
            lw=0.8,
            zorder=3,
        )
    )
    axes.text(x, y, text, ha="center", va="center", fontsize=8, color=ink(fill), zorder=4)
