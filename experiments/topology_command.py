"""``windtunnel topology NAME``: a cluster's counts, bisection, power, and a drawing that stays readable at any size."""

import pathlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from sim.cluster import Cluster
from sim.units import GB, KILO, TB

ALL_DRAWN = 72
"""Devices up to which every one is drawn; beyond, the first and last hosts (or the first cube)."""
SCALE_UP = ("nvlink", "ub", "hccs", "xgmi", "ici", "neuronlink", "gaudi")
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
    vertices: Counter[str] = Counter()
    for name, count in zip(cluster.vertex_kind, cluster.vertex_count.tolist(), strict=True):
        vertices[name] += count
    out: dict[str, Any] = {
        "name": cluster.name,
        "family": cluster.family,
        "device": cluster.device(0).name,
        "num_devices": cluster.num_devices,
        "num_hosts": len(np.unique(cluster.host)),
        "num_domains": len(np.unique(cluster.domain)),
        "vertices": dict(vertices),
        "links": kinds,
        "facts": dict(cluster.facts),
        "assumptions": list(cluster.assumptions),
    }
    if cluster.shape:
        out |= {"shape": list(cluster.shape), "wrap": list(cluster.wrap)}
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Where each drawn vertex stands, boxes around groups of devices, and what was left out."""

    at: dict[int, tuple[float, float]]
    boxes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    note: str = ""
    flat: bool = True
    rim: bool = False


def draw(cluster: Cluster, path: pathlib.Path | str | None = None) -> Figure:
    """Return a drawing: devices in their hosts, switches (with their number), links coloured by kind and rate.

    Saved to ``path`` where one is given.
    """
    layout = LAYOUTS.get(cluster.family, _layers)(cluster)
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
        title += f", {facts['power_W'] / KILO:,.4g} kW"
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
    return (
        f"{bandwidth / GB:,.4g} GB/s"
        if bandwidth < 1000 * GB
        else f"{bandwidth / GB / 1000:,.4g} TB/s"
    )


def _shown(cluster: Cluster) -> tuple[list[int], str]:
    """Return the devices drawn, and a note on the others: whole hosts, the first two and the last two."""
    if cluster.num_devices <= ALL_DRAWN:
        return list(range(cluster.num_devices)), ""
    hosts = np.unique(cluster.host)
    per_host = max(1, cluster.num_devices // len(hosts))
    keep = max(1, min(2, ALL_DRAWN // per_host // 2))
    chosen = np.concatenate([hosts[:keep], hosts[-keep:]])
    devices = np.flatnonzero(np.isin(cluster.host, chosen)).tolist()
    return (
        devices,
        f"drawn: the first and last {keep} of {len(hosts):,} hosts, and the switches above them",
    )


def _is_scale_up(cluster: Cluster, link: int) -> bool:
    """Return whether a link belongs to the scale-up network."""
    return cluster.link_kinds[int(cluster.links.kind[link])].name.startswith(SCALE_UP)


def _layers(cluster: Cluster) -> _Layout:
    """Stand devices in a row, scale-up switches below them, the network above, tier by tier."""
    shown, note = _shown(cluster)
    at: dict[int, tuple[float, float]] = {}
    x, last = 0.0, int(cluster.host[shown[0]])
    for device in shown:
        host = int(cluster.host[device])
        x += (1.0 if host == last else 2.2) if at else 0.0
        if host > last + 1:
            x += 1.5
        at[device] = (x, 0.0)
        last = host
    useful = _useful(cluster, shown)
    for sign in (-1, 1):
        below = set(shown)
        level = 1
        while below:
            above = _next_tier(cluster, below, useful - set(at), sign < 0)
            _stand(cluster, above, at, sign * (0.5 + level))
            below = set(above)
            level += 1
    hosts = sorted({int(cluster.host[d]) for d in shown})
    boxes = tuple((f"host {h}", tuple(d for d in shown if cluster.host[d] == h)) for h in hosts)
    return _Layout(at=at, boxes=boxes, note=note)


def _useful(cluster: Cluster, shown: list[int]) -> set[int]:
    """Return the vertices next to the shown devices, on routes between them, and up to the top."""
    links = cluster.links
    devices = np.array(shown)
    src, dst = (side.ravel() for side in np.meshgrid(devices, devices))
    used = [cluster.routes(src, dst).link]
    if cluster.exits is not None:
        used.append(cluster.exits(devices)[0].link)
    beside = np.flatnonzero(np.isin(links.src, devices))
    found = links.dst[np.concatenate([*used, beside])]
    return set(found[found >= cluster.num_devices].tolist())


def _next_tier(
    cluster: Cluster, below: set[int], free: set[int], scale_up: bool
) -> dict[int, list[int]]:
    """Return the vertices of ``free`` above ``below`` in one network, each with those it hangs on."""
    links = cluster.links
    above: dict[int, list[int]] = {}
    for link in np.flatnonzero(np.isin(links.src, list(below))).tolist():
        src, dst = int(links.src[link]), int(links.dst[link])
        if dst in free and _is_scale_up(cluster, link) == scale_up:
            above.setdefault(dst, []).append(src)
    return above


def _stand(
    cluster: Cluster, above: dict[int, list[int]], at: dict[int, tuple[float, float]], y: float
) -> None:
    """Place the vertices of a tier over the middle of what they hang on, side by side where crowded."""
    if not above:
        return
    middle = {v: float(np.mean([at[u][0] for u in under])) for v, under in above.items()}
    order = sorted(above, key=lambda v: (middle[v], v))
    wide = [0.24 * len(_label(cluster, v)) + 0.4 for v in order]
    xs = [middle[v] for v in order]
    for i in range(1, len(xs)):
        xs[i] = max(xs[i], xs[i - 1] + (wide[i - 1] + wide[i]) / 2)
    shift = float(np.mean(xs)) - float(np.mean([middle[v] for v in order]))
    for vertex, x in zip(order, xs, strict=True):
        at[vertex] = (x - shift, 2.0 * y)


def _label(cluster: Cluster, vertex: int) -> str:
    """Return what a switch is called in the drawing: its number where it stands for several, and its name."""
    name = cluster.vertex_name(vertex).strip("-")
    short = name.rsplit("/", 1)[1] if "host" in name else name
    count = int(cluster.vertex_count[vertex])
    return f"{count} x {short}" if count > 1 else short


SLANTS = {
    1: np.array([[2.0, 0.0]]),
    2: np.array([[0.0, -2.0], [2.0, 0.0]]),
    3: np.array([[1.9, 1.3], [0.0, -4.2], [4.4, 0.0]]),
    4: np.array([[0.0, -30.0], [34.0, 0.0], [0.0, -3.0], [3.4, 0.0]]),
}
"""Where one step along each axis leads on paper, by the number of axes."""


def _grid(cluster: Cluster) -> _Layout:
    """Stand devices by their coordinates; three axes in a slant, four as grids of grids."""
    coordinates = cluster.coordinates
    assert coordinates is not None
    axes = coordinates.shape[1]
    size = int(np.prod(cluster.shape))
    first = coordinates[:size]
    limit = {1: 64, 2: 16, 3: 4, 4: 8}[axes]
    small = size <= ALL_DRAWN or (axes == 2 and max(cluster.shape) <= limit)
    shown = np.arange(size) if small else np.flatnonzero((first < limit).all(axis=1))
    if axes == 4 and not small:
        shown = np.flatnonzero((first[:, :2] == 0).all(axis=1))
    spots = first[shown] @ SLANTS[axes]
    at = {int(d): (float(x), float(y)) for d, (x, y) in zip(shown, spots, strict=True)}
    shape = "x".join(map(str, cluster.shape))
    note = f"shape {shape}, closed axes: {', '.join(str(i) for i, w in enumerate(cluster.wrap) if w) or 'none'}"
    if cluster.top >= 0:
        note += "; the network between slices is not drawn"
    if len(shown) < cluster.num_devices:
        note += f"; drawn: the first {len(shown)} of {cluster.num_devices:,} devices"
    rim = axes == 2 and len(shown) > ALL_DRAWN
    if rim:
        note += "; ends at the rim join the opposite rim"
    return _Layout(at=at, note=note, flat=False, rim=rim)


def _boards(cluster: Cluster) -> _Layout:
    """Stand each board's four chips in a square, the boards of a group in a circle, at most two groups."""
    shown = range(min(cluster.num_devices, 64))
    at = {}
    for chip in shown:
        group, board, place = chip // 32, chip // 4 % 8, chip % 4
        angle = 2 * np.pi * board / 8
        x = 24 * group + 9 * np.cos(angle) + (place % 2) * 2.4
        at[chip] = (float(x), float(7 * np.sin(angle) + (place // 2) * 2.0))
    boxes = tuple(
        (f"board {b}", tuple(c for c in shown if c // 4 == b))
        for b in sorted({c // 4 for c in shown})
    )
    note = (
        ""
        if len(shown) == cluster.num_devices
        else f"drawn: two of {cluster.num_devices // 32} groups"
    )
    return _Layout(at=at, boxes=boxes, note=note, flat=False)


LAYOUTS: dict[str, Callable[[Cluster], _Layout]] = {
    "torus": _grid,
    "virgo": _grid,
    "ub_mesh": _grid,
    "boardfly": _boards,
}


def _draw_boxes(axes: Any, layout: _Layout) -> None:
    """Draw a box around each group of devices."""
    for label, members in layout.boxes:
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
            axes.text(x, y - 0.1, label, fontsize=6.5, color="#666666", va="top", zorder=1.2)


def _draw_links(axes: Any, cluster: Cluster, layout: _Layout) -> None:
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


def _bent(a: tuple[float, float], b: tuple[float, float], layout: _Layout) -> bool:
    """Return whether a link would run through other vertices: along a row of devices, or round a torus."""
    if layout.flat:
        return a[1] == b[1]
    return bool(np.hypot(b[0] - a[0], b[1] - a[1]) > (15.0 if layout.boxes else 4.8))


def _arc(
    a: tuple[float, float],
    b: tuple[float, float],
    layout: _Layout,
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


def _draw_vertices(axes: Any, cluster: Cluster, layout: _Layout) -> None:
    """Draw devices as squares with their number, switches as labelled boxes."""
    devices = [v for v in layout.at if v < cluster.num_devices]
    xs, ys = zip(*(layout.at[v] for v in devices), strict=True)
    marks: PathCollection = axes.scatter(
        xs, ys, s=120 if len(devices) <= ALL_DRAWN else 40, marker="s", color=MARKS["device"],
        edgecolors="#335577", linewidths=0.7, zorder=3,
    )  # fmt: skip
    marks.set_gid("devices")
    if len(devices) <= ALL_DRAWN:
        for vertex in devices:
            axes.text(
                *layout.at[vertex], str(vertex), ha="center", va="center", fontsize=5.5, zorder=4
            )
    for vertex in layout.at:
        if vertex >= cluster.num_devices:
            axes.text(
                *layout.at[vertex], _label(cluster, vertex), ha="center", va="center", fontsize=6.5, zorder=5,
                bbox={
                    "boxstyle": "round,pad=0.25", "facecolor": MARKS["switch"],
                    "edgecolor": "#a06a3c", "linewidth": 0.7,
                },
            )  # fmt: skip
