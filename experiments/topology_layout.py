"""Where a drawing of a cluster puts its devices and switches, family by family."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.cluster import Cluster

ALL_DRAWN = 72
"""Devices up to which every one is drawn; beyond, the first and last hosts (or the first cube)."""
SCALE_UP = ("nvlink", "ub", "hccs", "xgmi", "ici", "neuronlink", "gaudi")
"""Beginnings of the names of link kinds inside a scale-up domain; their switches stand below the devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where each drawn vertex stands, boxes around groups of devices, and what was left out."""

    at: dict[int, tuple[float, float]]
    boxes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    note: str = ""
    flat: bool = True
    rim: bool = False


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


def _layers(cluster: Cluster) -> Layout:
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
    return Layout(at=at, boxes=boxes, note=note)


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
    wide = [0.24 * len(label(cluster, v)) + 0.4 for v in order]
    xs = [middle[v] for v in order]
    for i in range(1, len(xs)):
        xs[i] = max(xs[i], xs[i - 1] + (wide[i - 1] + wide[i]) / 2)
    shift = float(np.mean(xs)) - float(np.mean([middle[v] for v in order]))
    for vertex, x in zip(order, xs, strict=True):
        at[vertex] = (x - shift, 2.0 * y)


def label(cluster: Cluster, vertex: int) -> str:
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


def _grid(cluster: Cluster) -> Layout:
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
    return Layout(at=at, note=note, flat=False, rim=rim)


def _boards(cluster: Cluster) -> Layout:
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
    return Layout(at=at, boxes=boxes, note=note, flat=False)


LAYOUTS: dict[str, Callable[[Cluster], Layout]] = {
    "torus": _grid,
    "virgo": _grid,
    "ub_mesh": _grid,
    "boardfly": _boards,
}


def layout_of(cluster: Cluster) -> Layout:
    """Return the layout of a cluster by its family; servers under switches unless the family has its own."""
    return LAYOUTS.get(cluster.family, _layers)(cluster)
