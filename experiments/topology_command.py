"""``windtunnel topology NAME``: a cluster's counts, bisection, power, and a drawing that stays readable at any size."""

import pathlib
from collections import Counter
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from experiments.topology_layout import ALL_DRAWN, Layout, label, layout_of
from sim.cluster import Cluster
from sim.units import GB, KILO, TB

COLOURS = ("#3b6ea5", "#c8553d", "#588157", "#8d6a9f", "#b08900", "#4a4e69")
STYLES = ("-", "--", ":")
"""Lines of one kind and falling rate."""
MARKS = {"device": "#dce6f2", "switch": "#f2e3d5"}


def describe(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster as plain data: counts, links by kind, facts (bisection in bytes/s, power in W), assumptions."""
    links = cluster.links
    kinds = []
    for index, kind in enumerate(cluster.link_kinds):
        of_kind = links.kind == index
        cable = links.bandwidth[of_kind] / np.maximum(1, links.width[of_kind])
        kinds.append(
            {
                "kind": kind.name,
                "trunks": int(of_kind.sum()),
                "cables": int(links.width[of_kind].sum()),
                "cable_bandwidth_Bps": float(cable.max(initial=0.0)),
                "total_bandwidth_Bps": float(links.bandwidth[of_kind].sum()),
                "efficiency": kind.efficiency,
                "latency_s": kind.latency,
            }
        )
    switches: Counter[str] = Counter()
    for name, count in zip(cluster.vertex_kind, cluster.vertex_count.tolist(), strict=True):
        if name != "device":
            switches[name] += count
    out: dict[str, Any] = {
        "name": cluster.name,
        "family": cluster.family,
        "device": cluster.device(0).name,
        "num_devices": cluster.num_devices,
        "num_hosts": len(np.unique(cluster.host)),
        "num_domains": len(np.unique(cluster.domain)),
        "vertices": dict(switches),
        "links": kinds,
        "facts": dict(cluster.facts),
        "assumptions": list(cluster.assumptions),
    }
    if cluster.shape:
        out |= {"shape": list(cluster.shape), "wrap": list(cluster.wrap)}
    return out


def draw(cluster: Cluster, path: pathlib.Path | str | None = None) -> Figure:
    """Return a drawing: devices in their hosts, switches (with their number), links coloured by kind and rate.

    Saved to ``path`` where one is given.
    """
    layout = layout_of(cluster)
    xs, ys = zip(*layout.at.values(), strict=True)
    width = min(20.0, max(7.0, 0.24 * (max(xs) - min(xs)) + 2))
    height = min(11.0, max(4.0, 0.62 * (max(ys) - min(ys)) + 2))
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    _draw_boxes(axes, layout)
    _draw_links(axes, cluster, layout)
    _draw_vertices(axes, cluster, layout)
    facts = cluster.facts
    title = f"{cluster.name}: {cluster.num_devices:,} x {cluster.device(0).name}"
    if "bisection_Bps" in facts:
        title += f", bisection {_rate(facts['bisection_Bps'])}"
    if "power_W" in facts:
        title += f", {_number(facts['power_W'] / KILO)} kW"
    axes.set_title(title, fontsize=11, loc="left")
    if layout.note:
        axes.annotate(
            layout.note, (0, -0.02), xycoords="axes fraction", fontsize=8, color="#555555"
        )
    axes.margins(0.04, 0.08)
    if path is not None:
        figure.savefig(path, dpi=130)
    return figure


def _rate(bandwidth: float) -> str:
    """Return bytes/s in GB/s or TB/s."""
    big = bandwidth >= TB
    return f"{_number(bandwidth / (TB if big else GB))} {'TB/s' if big else 'GB/s'}"


def _number(value: float) -> str:
    """Return four figures, never in powers of ten."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _draw_boxes(axes: Any, layout: Layout) -> None:
    """Draw a box around each group of devices."""
    for title, members in layout.boxes:
        xs, ys = zip(*(layout.at[m] for m in members), strict=True)
        x, y, pad = min(xs) - 0.6, min(ys) - 0.5, 1.2
        box = FancyBboxPatch(
            (x, y),
            max(xs) - min(xs) + pad,
            max(ys) - min(ys) + 1.0,
            boxstyle="round,pad=0.1",
            facecolor="#f7f7f7",
            edgecolor="#aaaaaa",
            linewidth=0.8,
            zorder=0,
        )
        axes.add_patch(box)
        if len(layout.boxes) <= 20:
            axes.text(x, y - 0.1, title, fontsize=6.5, color="#666666", va="top", zorder=1.2)


def _draw_links(axes: Any, cluster: Cluster, layout: Layout) -> None:
    """Draw every pair of joined vertices once, by kind and rate; far neighbours of a row as arcs; add the legend."""
    links = cluster.links
    shown = np.array(sorted(layout.at))
    drawn = np.isin(links.src, shown) & np.isin(links.dst, shown) & (links.width > 0)
    groups: dict[tuple[str, float, int], list[int]] = {}
    for link in np.flatnonzero(drawn).tolist():
        if links.src[link] < links.dst[link]:
            kind = cluster.link_kinds[int(links.kind[link])].name
            key = (kind, float(links.bandwidth[link]), int(links.width[link]))
            groups.setdefault(key, []).append(link)
    kinds = {kind: i for i, kind in enumerate(dict.fromkeys(kind for kind, _, _ in groups))}
    seen: Counter[str] = Counter()
    for (kind, bandwidth, width), members in sorted(groups.items(), key=lambda g: -g[0][1]):
        style = STYLES[min(seen[kind], len(STYLES) - 1)] if not layout.flat or width <= 4 else "-"
        seen[kind] += 1
        colour = COLOURS[kinds[kind] % len(COLOURS)]
        weight = 0.5 + 0.45 * np.log10(max(1.0, bandwidth / (10 * GB)))
        alpha = 0.85 if len(members) < 150 else 0.45
        straight = []
        for link in members:
            a, b = layout.at[int(links.src[link])], layout.at[int(links.dst[link])]
            if layout.rim and np.hypot(b[0] - a[0], b[1] - a[1]) > 4.8:
                straight.extend(_stubs(a, b))
            elif _bent(a, b, layout):
                axes.add_patch(_arc(a, b, layout, (colour, weight, alpha, style)))
            else:
                straight.append([a, b])
        cables = f" ({width} cables)" if width > 1 else ""
        axes.add_collection(
            LineCollection(
                straight, colors=colour, linewidths=weight, alpha=alpha, zorder=2, linestyles=style,
                label=f"{kind} {_rate(bandwidth)}{cables}",
            )
        )  # fmt: skip
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7.5, frameon=False, title="links, one way",
        title_fontsize=8,
    )  # fmt: skip


def _stubs(a: tuple[float, float], b: tuple[float, float]) -> list[list[tuple[float, float]]]:
    """Return two short ends that point away from each other, for a link round a large torus."""
    length = float(np.hypot(b[0] - a[0], b[1] - a[1]))
    dx, dy = 0.9 * (b[0] - a[0]) / length, 0.9 * (b[1] - a[1]) / length
    return [[a, (a[0] - dx, a[1] - dy)], [b, (b[0] + dx, b[1] + dy)]]


def _bent(a: tuple[float, float], b: tuple[float, float], layout: Layout) -> bool:
    """Return whether a link would run through other vertices: along a row of devices, or round a torus."""
    if layout.flat:
        return a[1] == b[1]
    return bool(np.hypot(b[0] - a[0], b[1] - a[1]) > (15.0 if layout.boxes else 4.8))


def _arc(
    a: tuple[float, float],
    b: tuple[float, float],
    layout: Layout,
    look: tuple[str, float, float, str],
) -> PathPatch:
    """Return a curve from a to b that bulges to one side."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    bulge = 0.35 if layout.flat else 0.14
    if layout.flat and a[1] != 0:
        bulge = -0.12
    control = (
        (a[0] + b[0]) / 2 + bulge * dy,
        (a[1] + b[1]) / 2 - bulge * abs(dx) - (0.2 if bulge > 0 else 0.0),
    )
    path = Path([a, control, b], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
    colour, weight, alpha, style = look
    return PathPatch(
        path,
        facecolor="none",
        edgecolor=colour,
        linewidth=weight,
        alpha=alpha,
        linestyle=style,
        zorder=1.5,
    )


def _draw_vertices(axes: Any, cluster: Cluster, layout: Layout) -> None:
    """Draw devices as squares with their number, switches as labelled boxes."""
    devices = [v for v in layout.at if v < cluster.num_devices]
    xs, ys = zip(*(layout.at[v] for v in devices), strict=True)
    marks: PathCollection = axes.scatter(
        xs, ys, s=120 if len(devices) <= ALL_DRAWN else 40, marker="s", color=MARKS["device"],
        edgecolors="#335577", linewidths=0.7, zorder=3,
    )  # fmt: skip
    marks.set_gid("devices")
    if len(devices) <= ALL_DRAWN:
        size = 5.5 if max(devices) < 10_000 else 3.8
        for vertex in devices:
            axes.text(
                *layout.at[vertex], str(vertex), ha="center", va="center", fontsize=size, zorder=4
            )
    for vertex in layout.at:
        if vertex >= cluster.num_devices:
            axes.text(
                *layout.at[vertex], label(cluster, vertex), ha="center", va="center", fontsize=6.5, zorder=5,
                bbox={
                    "boxstyle": "round,pad=0.25", "facecolor": MARKS["switch"],
                    "edgecolor": "#a06a3c", "linewidth": 0.7,
                },
            )  # fmt: skip
