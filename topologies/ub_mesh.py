"""UB-Mesh: every line of an nD grid is a full mesh; a switched stage may join several grids.

A rack is 8 x 8 devices, a pod 4 x 4 racks; each device splits its 72 UB lanes over the axes (UB-Mesh paper). Traffic
corrects one coordinate after the other and spreads over all orders of the axes (all-path routing).
"""

from itertools import permutations
from math import factorial, prod

import numpy as np

from sim.cluster import Cluster
from sim.device import Device
from sim.errors import TopologyError
from sim.routing import Router, Routes, join, merged, nested
from topologies.draft import Draft, power, start
from topologies.grid import Grid, parse_shape
from topologies.tree import Tier, climb, exits, grow


def ub_mesh(
    num_devices: int,
    *,
    device: str | Device,
    link: str = "ub",
    lane_bandwidth: float,
    sides: tuple[int, ...] = (4, 4, 8, 8),
    lanes: tuple[float, ...] = (8.0, 8.0, 28.0, 28.0),
    stage_lanes: float = 0.0,
    shape: str | tuple[int, ...] = "",
    host_devices: int = 8,
) -> Cluster:
    """Return full meshes of at most ``sides`` (slow axis first), joined by a stage of ``stage_lanes`` a device.

    A device has ``lanes[a]`` lanes of ``lane_bandwidth`` raw bytes/s one way along axis a, equal to each of the
    ``sides[a] - 1`` others of a full line. ``shape`` sets the grid used. Raises `TopologyError` for a number that
    fills no grid or has no stage to join grids.
    """
    draft = start(device, num_devices)
    whole = prod(sides)
    if num_devices > whole and (not stage_lanes or num_devices % whole):
        raise TopologyError(
            f"num_devices={num_devices} is not made of whole meshes of {whole}"
            f"{'' if stage_lanes else ', and no stage joins several'}; choose at most {whole}"
            f"{' or a multiple' if stage_lanes else ''}"
        )
    used = _sides(min(num_devices, whole), sides, parse_shape(shape) if shape else ())
    grid = Grid(used, (False,) * len(used), np.zeros((len(used), len(used)), np.int64))
    size = prod(used)
    cables = [n / (side - 1) for n, side in zip(lanes, sides, strict=True)]
    tables = _lines(draft, grid, link, [c * lane_bandwidth for c in cables], cables)
    inside = _all_paths(grid, tables)
    mesh = np.arange(num_devices) // size
    router, top, leave = inside, -1, None
    if stage_lanes:
        tree = grow(draft, _stage(mesh, link, stage_lanes, lane_bandwidth))
        router, top, leave = nested(mesh, inside, climb(tree)), tree.top, exits(tree)
    facts = power(draft.device, num_devices)
    facts["bisection_Bps"] = (
        num_devices / 2 * stage_lanes * lane_bandwidth
        if num_devices > size
        else bisection(used, [c * lane_bandwidth for c in cables])
    )
    return draft.cluster(
        name="ub-mesh",
        family="ub_mesh",
        host=np.arange(num_devices) // host_devices,
        domain=np.zeros(num_devices, np.int64),
        router=router,
        facts=facts,
        parameters={"num_devices": num_devices, "shape": used, "lanes": lanes},
        assumptions=("how the UB lanes split over the axes is not published: see lanes",),
        coordinates=np.tile(grid.coordinates, (num_devices // size, 1)),
        shape=used,
        wrap=(False,) * len(used),
        top=top,
        exits=leave,
    )


def _sides(size: int, sides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the grid of ``size`` devices: ``shape`` if given, else fast axes filled first."""
    if shape:
        padded = (1,) * (len(sides) - len(shape)) + shape
        if prod(shape) != size or any(a > b for a, b in zip(padded, sides, strict=False)):
            raise TopologyError(
                f"shape={shape} is not {size} devices on axes of at most {sides}; choose sides that multiply to it"
            )
        return padded
    used: list[int] = []
    left = size
    for side in reversed(sides):
        step = max(n for n in range(1, side + 1) if left % n == 0)
        used.append(step)
        left //= step
    if left > 1:
        raise TopologyError(
            f"num_devices={size} fills no grid of axes of at most {sides}; choose a product of such sides, or shape="
        )
    return tuple(reversed(used))


def _lines(
    draft: Draft, grid: Grid, link: str, bandwidth: list[float], cables: list[float]
) -> list[np.ndarray]:
    """Join every two devices of a line; return for each axis the links (num_devices, side) to each coordinate."""
    tables = []
    size, n = len(grid.coordinates), draft.num_devices
    devices = np.arange(n)
    base, place = devices - devices % size, grid.coordinates[devices % size]
    for axis, side in enumerate(grid.sides):
        table = np.full((n, side), -1)
        for target in range(side):
            src = devices[place[:, axis] != target]
            if not len(src):
                continue
            moved = place[src].copy()
            moved[:, axis] = target
            dst = base[src] + np.ravel_multi_index(tuple(moved.T), grid.sides)
            width = max(1, round(cables[axis]))
            table[src, target] = draft.links(src, dst, link, bandwidth[axis], width=width)
        tables.append(table)
    return tables


def _all_paths(grid: Grid, tables: list[np.ndarray]) -> Router:
    """Correct the coordinates that differ, spread equally over the orders of doing so."""
    size = len(grid.coordinates)
    weight = np.array([prod(grid.sides[axis + 1 :]) for axis in range(len(grid.sides))])

    def router(src: np.ndarray, dst: np.ndarray) -> Routes:
        a, b = grid.coordinates[src % size], grid.coordinates[dst % size]
        differ = a != b
        code = differ @ (1 << np.arange(len(grid.sides)))
        parts = []
        for mask in np.unique(code).tolist():
            axes = [axis for axis in range(len(grid.sides)) if mask >> axis & 1]
            pairs = np.flatnonzero(code == mask)
            share = np.full(len(pairs), 1 / factorial(len(axes)))
            for order in permutations(axes) if axes else ():
                here = src[pairs].copy()
                for axis in order:
                    target = b[pairs, axis]
                    parts.append(Routes(pairs, tables[axis][here, target], share))
                    here += (target - a[pairs, axis]) * weight[axis]
        return merged(join(parts))

    return router


def _stage(mesh: np.ndarray, link: str, lanes: float, lane_bandwidth: float) -> list[Tier]:
    """Return the switched stage above the meshes, non-blocking; its switches are not published."""
    members = np.bincount(mesh)
    below = Tier(
        kind="stage",
        pattern="mesh{i}/stage",
        group=mesh,
        count=1,
        link=link,
        cables=max(1, round(lanes)),
        bandwidth=lanes * lane_bandwidth,
    )
    if len(members) == 1:
        return [below]
    above = Tier(
        kind="core",
        pattern="core",
        group=np.zeros_like(mesh),
        count=1,
        link=link,
        cables=np.maximum(1, np.rint(members * lanes)).astype(np.int64),
        bandwidth=members * lanes * lane_bandwidth,
    )
    return [below, above]


def bisection(sides: tuple[int, ...], bandwidth: list[float]) -> float:
    """Return bytes/s one way across the thinnest middle of an axis: floor(s/2) ceil(s/2) links a line."""
    size = prod(sides)
    cuts = [
        size / side * (side // 2) * (side - side // 2) * rate
        for side, rate in zip(sides, bandwidth, strict=True)
        if side > 1
    ]
    return min(cuts, default=0.0)
