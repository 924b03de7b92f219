"""Tree: tiers of switches above devices, each vertex with one trunk up; routes go up to the first common vertex."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.routing import Router, Routes, join, on
from topologies.draft import Draft
from topologies.link_kinds import link_kind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tier:
    """One tier of a tree, from the devices' point of view.

    ``group`` (num_devices,): the vertex 0, 1, ... of this tier above each device. ``count`` switches a vertex stands
    for (one number or one a vertex). ``cables`` and ``bandwidth`` (raw bytes/s of all of them): the trunk up from each
    vertex of the tier below (one number or an array).
    """

    kind: str
    pattern: str
    group: np.ndarray
    count: int | np.ndarray
    link: str
    cables: int | np.ndarray
    bandwidth: float | np.ndarray
    latency: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree that stands: vertex above each device by tier, and the link up to it and down from it."""

    above: np.ndarray
    up: np.ndarray
    down: np.ndarray

    @property
    def top(self) -> int:
        """The highest vertex above the first device."""
        return int(self.above[-1, 0])


def grow(draft: Draft, tiers: Sequence[Tier]) -> Tree:
    """Add the tiers to ``draft`` and return the tree; a tier's first hop is that of its link kind.

    Hops between switches take the kind's ``switch_hop``.
    """
    lower = np.arange(draft.num_devices)
    above: list[np.ndarray] = []
    up: list[np.ndarray] = []
    down: list[np.ndarray] = []
    for tier in tiers:
        size = int(tier.group.max()) + 1
        ids = draft.vertices(tier.kind, tier.pattern, np.broadcast_to(tier.count, size))
        vertices, first = np.unique(lower, return_index=True)
        latency = tier.latency
        if latency is None and above:
            latency = link_kind(tier.link).constants.get("switch_hop")
        ups, downs = draft.duplex(
            vertices,
            ids[tier.group[first]],
            tier.link,
            tier.bandwidth,
            width=tier.cables,
            latency=latency,
        )
        place = np.searchsorted(vertices, lower)
        above.append(ids[tier.group])
        up.append(ups[place])
        down.append(downs[place])
        lower = ids[tier.group]
    return Tree(np.array(above), np.array(up), np.array(down))


def climb(tree: Tree) -> Router:
    """Return the router of a tree: up to the first common vertex, then down."""
    levels = len(tree.above)

    def router(src: np.ndarray, dst: np.ndarray) -> Routes:
        pairs = np.flatnonzero(src != dst)
        rows = []
        for level in range(levels):
            a, b = src[pairs], dst[pairs]
            ones = np.ones(len(pairs))
            rows.append(Routes(pairs, tree.up[level, a], ones))
            rows.append(Routes(pairs, tree.down[level, b], ones))
            pairs = pairs[tree.above[level, a] != tree.above[level, b]]
            if not len(pairs):
                break
        return join(rows)

    return router


def planes(routers: Sequence[Router]) -> Router:
    """Return the router that spreads every pair equally over parallel planes."""

    def router(src: np.ndarray, dst: np.ndarray) -> Routes:
        everything = np.arange(len(src))
        return join([on(everything, plane(src, dst), 1 / len(routers)) for plane in routers])

    return router


def exits(tree: Tree) -> Callable[[np.ndarray], tuple[Routes, Routes]]:
    """Return the routes of devices to the highest vertex and back (pair i is device i of those asked for)."""

    def leave(devices: np.ndarray) -> tuple[Routes, Routes]:
        pairs = np.tile(np.arange(len(devices)), len(tree.above))
        ones = np.ones(len(pairs))
        return (
            Routes(pairs, tree.up[:, devices].ravel(), ones),
            Routes(pairs, tree.down[:, devices].ravel(), ones),
        )

    return leave
