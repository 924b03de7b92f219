"""Torus: rings along every axis at once, in both directions.

The buffer is cut into one part an axis; part p runs along axes p, p+1, ... in turn, so that all axes are busy.
All-gather V / (W_bidi x axes); an axis that does not close is a line, whose end links carry one direction's worth;
all-to-all S X / (8 w) an axis (jax-ml/scaling-book, sharding chapter).
"""

from collections.abc import Iterator

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer
from sim.errors import CollectiveError

KINDS = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage: flows between neighbours of every axis; every level is an axis."""
    axes = [a for a, x in enumerate(block.shape) if x > 1]
    if not axes:
        return "needs groups that are whole boxes of a torus"
    grid = block.members.reshape(len(block.members), *block.shape)
    parts, steps = [], []
    turns = 2 if kind == "all_reduce" else 1
    for level, axis in enumerate(axes):
        x, wraps = block.shape[axis], block.wraps[axis]
        if kind == "all_to_all":
            forward, backward = _crossing(x, wraps)
        else:
            forward, backward = (
                turns * _gathered(block.shape, axes, axis) * f for f in _line(x, wraps)
            )
        here = np.moveaxis(grid, axis + 1, -1)
        there = np.roll(here, -1, axis=-1)
        last = x if wraps and x > 2 else x - 1
        parts.append(
            (
                here[..., :last],
                there[..., :last],
                np.broadcast_to(forward[:last], here[..., :last].shape),
                level,
            )
        )
        parts.append(
            (
                there[..., :last],
                here[..., :last],
                np.broadcast_to(backward[:last], here[..., :last].shape),
                level,
            )
        )
        hops = x / 2 if wraps else x - 1
        steps.append(turns * hops)
    return (
        Stage(
            name="torus",
            rule="torus",
            steps=tuple(map(float, steps)),
            channels=2 * len(axes),
            **flows(*parts),
        ),
    )


def _gathered(shape: tuple[int, ...], axes: list[int], axis: int) -> float:
    """Bytes of one member's share along ``axis``, summed over the parts, for one byte of the whole buffer.

    A part that has run along the axes before it holds their product of shares.
    """
    total, n = 0.0, float(np.prod(shape))
    for p in range(len(axes)):
        order = axes[p:] + axes[:p]
        before = order[: order.index(axis)]
        total += float(np.prod([shape[a] for a in before])) / n / len(axes)
    return total


def _line(x: int, wraps: bool) -> tuple[np.ndarray, np.ndarray]:
    """Shares that cross link i -> i+1, and back, in an all-gather over ``x`` members."""
    if wraps and x > 2:
        half = np.full(x, (x - 1) / 2)
        return half, half
    place = np.arange(x)
    return place + 1.0, x - 1.0 - place


def _crossing(x: int, wraps: bool) -> tuple[np.ndarray, np.ndarray]:
    """Bytes that cross link i -> i+1, and back, in an all-to-all of one byte a member along an axis."""
    if wraps and x > 2:
        d = np.arange(x)
        half = np.full(x, float(np.minimum(d, x - d).sum()) / x / 2)
        return half, half
    place = np.arange(x)
    across = (place + 1.0) * (x - 1.0 - place) / x
    return across, across


def rounds(
    kind: str, n: int, sizes: tuple[int, ...] = (), shape: tuple[int, ...] = ()
) -> list[Round]:
    """Every transfer on a torus of ``shape`` (all axes closed); a chunk a member, part and half."""
    shape = shape or (n,)
    if kind == "all_to_all":
        return _direct_rounds(n)
    if int(np.prod(shape)) != n:
        raise CollectiveError(f"torus shape {shape} has {int(np.prod(shape))} members, not {n}")
    gather = [tuple(_gather_round(shape, j, s)) for j, s in _turns(shape)]
    scatter = [
        tuple(Transfer(t.dst, t.src, t.chunk, t.size, add=True) for t in turn)
        for turn in reversed(gather)
    ]
    table = {"all_gather": gather, "reduce_scatter": scatter, "all_reduce": scatter + gather}
    return table[kind]


def _turns(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    most = max(shape) // 2
    return ((j, s) for j in range(len(shape)) for s in range(1, most + 1))


def _gather_round(shape: tuple[int, ...], j: int, s: int) -> Iterator[Transfer]:
    """Step s of phase j: part p moves along axis p + j, both ways."""
    place = np.arange(int(np.prod(shape))).reshape(shape)
    count, n = len(shape), place.size
    for p in range(count):
        axis = (p + j) % count
        done = [(p + t) % count for t in range(j)]
        x = shape[axis]
        for at in np.ndindex(*shape):
            for way in (1, -1):
                if s > x // 2 or (x == 2 and s > 1):
                    continue
                to = list(at)
                to[axis] = (at[axis] + way) % x
                origin = list(at)
                origin[axis] = (at[axis] - way * (s - 1)) % x
                farthest = x % 2 == 0 and s == x // 2
                halves = [int(way < 0)] if farthest else [0, 1]
                index: list[int | slice] = [
                    slice(None) if a in done else origin[a] for a in range(count)
                ]
                for owner in np.ravel(place[tuple(index)]):
                    for half in halves:
                        chunk = (int(owner) * count + p) * 2 + half
                        yield Transfer(
                            int(place[at]), int(place[tuple(to)]), chunk, 1 / (2 * count * n)
                        )


def _direct_rounds(n: int) -> list[Round]:
    return [
        tuple(Transfer(i, (i + s) % n, i * n + (i + s) % n, 1 / n) for i in range(n))
        for s in range(1, n)
    ]


TORUS = Algorithm("torus", KINDS, stages, rounds)
