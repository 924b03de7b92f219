"""Grid: coordinates, neighbours and walks of tori and meshes of any number of axes."""

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np

from sim.errors import TopologyError
from sim.routing import Router, Routes, join, merged


class Grid:
    """Points of ``sides``, row by row; ``wrap`` says which axes close, ``shift[i, j]`` how far axis j moves there."""

    def __init__(self, sides: tuple[int, ...], wrap: tuple[bool, ...], shift: np.ndarray) -> None:
        self.sides = sides
        self.wrap = wrap
        self.shift = shift

    @cached_property
    def coordinates(self) -> np.ndarray:
        """Coordinates of every point (points, axes)."""
        return np.stack(np.unravel_index(np.arange(prod(self.sides)), self.sides), axis=1)

    @cached_property
    def neighbour(self) -> np.ndarray:
        """The next point along each axis (axes, points), -1 where there is none; an axis of 2 closes once."""
        out = np.full((len(self.sides), prod(self.sides)), -1)
        for axis, side in enumerate(self.sides):
            ahead = self.coordinates.copy()
            ahead[:, axis] += 1
            over = ahead[:, axis] == side
            ahead[over, axis] = 0
            ahead[over] += self.shift[axis]
            ahead %= np.array(self.sides)
            there = ~over if not self.wrap[axis] or side <= 2 else np.ones_like(over)
            out[axis, there] = np.ravel_multi_index(tuple(ahead[there].T), self.sides)
        return out

    @cached_property
    def behind(self) -> np.ndarray:
        """The point before along each axis (axes, points), -1 where there is none."""
        out = np.full_like(self.neighbour, -1)
        for axis, ahead in enumerate(self.neighbour):
            there = np.flatnonzero(ahead >= 0)
            out[axis, ahead[there]] = there
        return out

    def lattice(self) -> np.ndarray:
        """Walks that lead back to where they began, one an axis (axes, axes); zero for an axis that does not close."""
        closing = np.array(self.wrap)[:, None]
        return np.where(closing, np.diag(self.sides) - self.shift, 0)

    def follow(
        self,
        plus: np.ndarray,
        minus: np.ndarray,
        pair: np.ndarray,
        src: np.ndarray,
        steps: np.ndarray,
        share: np.ndarray,
    ) -> Routes:
        """Return the links of walks from ``src`` by signed ``steps`` (walks, axes), axis by axis, a row a hop."""
        return follow(self, plus, minus, pair, src, steps, share, range(len(self.sides)))


def follow(
    grid: Grid,
    plus: np.ndarray,
    minus: np.ndarray,
    pair: np.ndarray,
    src: np.ndarray,
    steps: np.ndarray,
    share: np.ndarray,
    order: Sequence[int],
) -> Routes:
    """Return the links of walks in this order of axes."""
    size = len(grid.coordinates)
    base, here = src - src % size, src % size
    rows = []
    for axis in order:
        left = steps[:, axis].copy()
        while left.any():
            for sign, links, onward in (
                (1, plus, grid.neighbour),
                (-1, minus, grid.behind),
            ):
                moving = np.flatnonzero(left * sign > 0)
                if len(moving):
                    at = base[moving] + here[moving]
                    rows.append(Routes(pair[moving], links[axis, at], share[moving]))
                    here = here.copy()
                    here[moving] = onward[axis, here[moving]]
                    left[moving] -= sign
    return join(rows)


def walk(
    grid: Grid, plus: np.ndarray, minus: np.ndarray, orders: Sequence[tuple[int, ...]]
) -> Router:
    """Return the router that goes axis by axis the shorter way, spread over ``orders`` of the axes.

    Half way round a closed axis, half goes each way.
    """
    size = len(grid.coordinates)
    sides = np.array(grid.sides)
    closed = np.array(grid.wrap) & (sides > 2)

    def router(src: np.ndarray, dst: np.ndarray) -> Routes:
        away = grid.coordinates[dst % size] - grid.coordinates[src % size]
        short = (away + sides // 2) % sides - sides // 2
        steps = np.where(closed, short, away)
        tie = closed & (np.abs(steps) * 2 == sides)
        pairs = np.arange(len(src))
        both = tie.any(axis=1)
        other = np.where(tie, -steps, steps)
        parts = []
        for order in orders:
            whole = np.where(both, 0.5, 1.0) / len(orders)
            parts.append(follow(grid, plus, minus, pairs, src, steps, whole, order))
            again = pairs[both]
            parts.append(
                follow(grid, plus, minus, again, src[again], other[again], whole[again], order)
            )
        return merged(join(parts)) if len(orders) > 1 or both.any() else join(parts)

    return router


def blocks(grid: Grid, sides: tuple[int, ...]) -> np.ndarray:
    """Return the block of ``sides`` each point lies in (points,), blocks row by row; smaller at the edges."""
    own = np.array(sides)
    place = grid.coordinates // own
    block: np.ndarray = np.ravel_multi_index(tuple(place.T), tuple(-(-np.array(grid.sides) // own)))
    return block


def parse_shape(shape: str | tuple[int, ...]) -> tuple[int, ...]:
    """Return ``"4x4x8"`` as numbers; raises `TopologyError` for anything else."""
    parts = shape.lower().split("x") if isinstance(shape, str) else [str(side) for side in shape]
    if not all(part.strip().isdigit() for part in parts):
        raise TopologyError(f"shape={shape!r} is not numbers joined by x; write 4x4x8")
    return tuple(int(part) for part in parts)


def slice_shape(size: int, axes: int, wrap_size: int, max_slice: int) -> tuple[int, ...]:
    """Return the most compact legal shape of a slice of ``size`` devices, sides ascending.

    Whole cubes where the machine needs them (``wrap_size`` 0), sides up to ``wrap_size`` otherwise. Raises
    `TopologyError` with the nearest sizes where there is none.
    """
    shape = _compact(size, axes, wrap_size)
    if shape is None:
        near = [n for n in range(1, max_slice + 1) if _compact(n, axes, wrap_size) is not None]
        below, above = [n for n in near if n < size][-1:], [n for n in near if n > size][:1]
        rule = "whole 4x4x4 cubes" if not wrap_size else f"axes of at most {wrap_size}"
        raise TopologyError(
            f"num_devices={size} forms no slice of {rule}; the nearest that do: {', '.join(map(str, below + above))}"
        )
    return shape


def _compact(size: int, axes: int, wrap_size: int) -> tuple[int, ...] | None:
    """Return the sides of least sum, or None; under a cube each side is at most 4."""
    if wrap_size:
        return _factor(size, axes, wrap_size)
    if size < 64:
        return _factor(size, axes, 4)
    cubes = _factor(size // 64, axes, size) if size % 64 == 0 else None
    return tuple(4 * side for side in cubes) if cubes else None


def _factor(size: int, axes: int, longest: int) -> tuple[int, ...] | None:
    """Return ascending factors of ``size``, as equal as can be, none above ``longest``; None where there are none."""
    if axes == 1:
        return (size,) if size <= longest else None
    best: tuple[int, ...] | None = None
    for side in range(1, round(size ** (1 / axes)) + 1):
        if size % side == 0:
            rest = _factor(size // side, axes - 1, longest)
            if rest and rest[0] >= side and (best is None or side + sum(rest) < sum(best)):
                best = (side, *rest)
    return best
