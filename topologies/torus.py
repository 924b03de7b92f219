"""Torus: TPU slices, tori and meshes of two or three axes, joined by the data-centre network.

Wrap rules: v4, v5p, 7x and 8t are built of 4x4x4 cubes whose faces meet in optical switches, so an axis closes only if
it is a whole number of cubes, and a slice under a cube is a mesh; v5e and v6e close an axis of 16, v3 one of 32 (Cloud
TPU documentation; jax-ml/scaling-book tpus.md). Devices are numbered row by row: the last axis runs fastest.
"""

from collections.abc import Callable
from itertools import permutations, product
from math import prod

import numpy as np

from sim.cluster import Cluster
from sim.device import Device
from sim.errors import TopologyError, unknown
from sim.routing import Router, Routes, join, merged, nested
from topologies.draft import Draft, power, start
from topologies.grid import Grid, blocks, parse_shape, slice_shape, walk
from topologies.tree import Tier, climb, exits, grow

CUBE = 4
CUBE_OPTICAL_LINKS = 96
"""16 links on each of the six faces of a cube (TPU v4 paper)."""


def torus(
    num_devices: int,
    *,
    device: str | Device,
    link: str,
    link_bandwidth: float,
    axes: int = 3,
    wrap_size: int = 0,
    max_slice: int,
    shape: str | tuple[int, ...] = "",
    slices: int = 0,
    twisted: bool = False,
    order: str = "dimension",
    host_shape: tuple[int, ...] = (1, 2, 2),
    dcn: str = "dcn",
    dcn_bandwidth: float = 0.0,
    dcn_ratio: float = 1.0,
    optical_switches: int = 0,
) -> Cluster:
    """Return slices of a torus of ``link_bandwidth`` raw bytes/s a link and direction.

    ``shape``: of one slice, ``"4x4x8"`` (default: the most compact legal one). ``slices``: how many (0: as few as
    ``max_slice`` allows). ``wrap_size``: the axis length that closes (0: whole cubes). ``order``: ``dimension`` routes
    axis by axis, ``adaptive`` spreads over all axis orders. ``dcn_bandwidth`` bytes/s a device between slices,
    ``dcn_ratio`` bytes/s leaving a slice over what its devices inject. Raises `TopologyError` for shapes the machine
    cannot form.
    """
    count = slices or -(-num_devices // max_slice)
    size = _slice_size(num_devices, count, max_slice)
    sides = parse_shape(shape) if shape else slice_shape(size, axes, wrap_size, max_slice)
    wrap = _wraps(sides, size, axes, wrap_size)
    grid = _grid(sides, wrap, twisted)
    draft = start(device, num_devices)
    plus, minus = _links(draft, grid, count, link, link_bandwidth)
    router = _router(order, twisted)(grid, plus, minus)
    domain, top, leave = np.arange(num_devices) // size, -1, None
    if dcn_bandwidth:
        tree = grow(draft, _network(domain, dcn, dcn_bandwidth, dcn_ratio))
        router, top, leave = nested(domain, router, climb(tree)), tree.top, exits(tree)
    facts = power(draft.device, num_devices) | _optics(size, count, wrap_size, optical_switches)
    across = bisection(sides, wrap, link_bandwidth)
    facts["bisection_Bps"] = across if count == 1 else num_devices / 2 * dcn_bandwidth * dcn_ratio
    return draft.cluster(
        name="torus",
        family="torus",
        host=_hosts(grid, host_shape, count),
        domain=domain,
        router=router,
        facts=facts,
        parameters={"num_devices": num_devices, "shape": sides, "twisted": twisted},
        coordinates=np.tile(grid.coordinates, (count, 1)),
        shape=sides,
        wrap=wrap,
        top=top,
        exits=leave,
    )


def _hosts(grid: Grid, sides: tuple[int, ...], count: int) -> np.ndarray:
    """Return the host of each device: blocks of ``sides`` of each slice, slice by slice."""
    local = blocks(grid, sides)
    first = np.arange(count) * (int(local.max()) + 1)
    hosts: np.ndarray = np.repeat(first, len(local)) + np.tile(local, count)
    return hosts


def _slice_size(num_devices: int, count: int, max_slice: int) -> int:
    """Return the devices of each of ``count`` slices; raises `TopologyError` where they are not equal or too large."""
    if count < 1 or num_devices % count or num_devices // count > max_slice:
        raise TopologyError(
            f"num_devices={num_devices} does not split into {count} equal slices of at most {max_slice}; "
            f"choose a multiple of {max(1, count)} or more slices"
        )
    return num_devices // count


def _optics(size: int, count: int, wrap_size: int, optical_switches: int) -> dict[str, float]:
    """Return the slices, and their cubes, optical links and optical switches where they are whole cubes."""
    facts = {"slices": float(count)}
    if wrap_size or size % CUBE**3:
        return facts
    cubes = float(size * count // CUBE**3)
    facts |= {"cubes": cubes, "optical_links": cubes * CUBE_OPTICAL_LINKS}
    if optical_switches:
        facts["optical_switches"] = float(optical_switches * count)
    return facts


def _wraps(sides: tuple[int, ...], size: int, axes: int, wrap_size: int) -> tuple[bool, ...]:
    """Return which axes close; raises `TopologyError` for a shape the machine cannot form."""
    text = "x".join(map(str, sides))
    if len(sides) != axes or min(sides) < 1:
        raise TopologyError(f"shape={text} must have {axes} axes of at least 1")
    if prod(sides) != size:
        raise TopologyError(
            f"shape={text} has {prod(sides)} devices, the slice {size}; make them equal"
        )
    if wrap_size:
        if max(sides) > wrap_size:
            raise TopologyError(
                f"shape={text} has an axis longer than {wrap_size}; choose shorter axes"
            )
        return tuple(side == wrap_size for side in sides)
    if all(side <= CUBE for side in sides) and size < CUBE**3:
        return (False,) * axes
    if any(side % CUBE for side in sides):
        raise TopologyError(
            f"shape={text} is not made of whole {CUBE}x{CUBE}x{CUBE} cubes; choose axes that are multiples of {CUBE}"
        )
    return (True,) * axes


def _grid(sides: tuple[int, ...], wrap: tuple[bool, ...], twisted: bool) -> Grid:
    """Return the grid, its wraparounds twisted where asked for.

    In a twisted a x a x 2a torus a short axis closes half way along the long one; in a x 2a x 2a along both (Camara
    et al., Twisted Torus Topologies for Enhanced Interconnection Networks; TPU v4 paper). Raises `TopologyError`
    elsewhere.
    """
    shift = np.zeros((len(sides), len(sides)), np.int64)
    if twisted:
        short, long = min(sides), max(sides)
        if not all(wrap) or long != 2 * short or any(side not in (short, long) for side in sides):
            raise TopologyError(
                f"shape={'x'.join(map(str, sides))} has no twisted form; choose a x a x 2a or a x 2a x 2a of cubes"
            )
        for i, j in product(range(len(sides)), repeat=2):
            if sides[i] == short and sides[j] == long:
                shift[i, j] = short
    return Grid(sides, wrap, shift)


def _links(
    draft: Draft, grid: Grid, count: int, link: str, bandwidth: float
) -> tuple[np.ndarray, np.ndarray]:
    """Add the links of all slices; return them (axes, num_devices) forwards and backwards, -1 for none."""
    size, n = len(grid.coordinates), draft.num_devices
    plus, minus = (np.full((len(grid.sides), n), -1) for _ in range(2))
    first = (np.arange(count) * size)[:, None]
    for axis in range(len(grid.sides)):
        ahead = grid.neighbour[axis]
        there = np.flatnonzero(ahead >= 0)
        src, dst = (first + there).ravel(), (first + ahead[there]).ravel()
        up, down = draft.duplex(src, dst, link, bandwidth)
        plus[axis, src] = up
        minus[axis, dst] = down
    return plus, minus


def _network(domain: np.ndarray, dcn: str, bandwidth: float, ratio: float) -> list[Tier]:
    """Return the tiers of the network between slices: a stage a slice, one stage above."""
    stage = Tier(
        kind="dcn",
        pattern="slice{i}/dcn",
        group=domain,
        count=1,
        link=dcn,
        cables=1,
        bandwidth=bandwidth,
    )
    if int(domain.max()) == 0:
        return [stage]
    per_slice = np.bincount(domain)
    above = Tier(
        kind="dcn-core",
        pattern="dcn",
        group=np.zeros_like(domain),
        count=1,
        link=dcn,
        cables=per_slice,
        bandwidth=per_slice * bandwidth * ratio,
    )
    return [stage, above]


def bisection(sides: tuple[int, ...], wrap: tuple[bool, ...], bandwidth: float) -> float:
    """Return bytes/s one way across the middle of the longest axis: its cross-section, twice where the axis closes.

    Of a twisted torus this is that of the untwisted one, a lower bound.
    """
    axis = int(np.argmax(sides))
    cables = prod(sides) // sides[axis] * (2 if wrap[axis] and sides[axis] > 2 else 1)
    return float(cables) * bandwidth


def _dimension(grid: Grid, plus: np.ndarray, minus: np.ndarray) -> Router:
    """Route axis by axis, the shorter way round; half each way where both are equal."""
    return walk(grid, plus, minus, [tuple(range(len(grid.sides)))])


def _adaptive(grid: Grid, plus: np.ndarray, minus: np.ndarray) -> Router:
    """Spread over all orders of the axes."""
    return walk(grid, plus, minus, list(permutations(range(len(grid.sides)))))


def _twisted(grid: Grid, plus: np.ndarray, minus: np.ndarray) -> Router:
    """Spread over the shortest walks, each axis by axis."""
    size = len(grid.coordinates)
    lattice = grid.lattice()
    turns = np.array(list(product(range(-2, 3), repeat=len(grid.sides)))) @ lattice

    def router(src: np.ndarray, dst: np.ndarray) -> Routes:
        away = grid.coordinates[dst % size] - grid.coordinates[src % size]
        parts = []
        for pairs in np.array_split(np.arange(len(src)), max(1, len(src) // 4096)):
            steps = away[pairs, None, :] + turns[None]
            hops = np.abs(steps).sum(axis=2)
            pair, turn = np.nonzero(hops == hops.min(axis=1, keepdims=True))
            ways = np.bincount(pair, minlength=len(pairs))
            parts.append(
                grid.follow(
                    plus, minus, pairs[pair], src[pairs[pair]], steps[pair, turn], 1 / ways[pair]
                )
            )
        return merged(join(parts))

    return router


ROUTERS = {"dimension": _dimension, "adaptive": _adaptive}


def _router(order: str, twisted: bool) -> Callable[[Grid, np.ndarray, np.ndarray], Router]:
    """Return the way of routing by name; a twisted torus has its own."""
    if order not in ROUTERS:
        raise TopologyError(unknown("order", order, ROUTERS))
    return _twisted if twisted else ROUTERS[order]
