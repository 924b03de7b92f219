"""Routing: which links the traffic of many device pairs crosses, as arrays.

A router is a function of two equal arrays of devices. Families give theirs in closed form; `shortest_paths` serves any
graph; `detour` sends only the pairs that meet a dead link another way; `hashed` picks single cables as ECMP does.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from sim.errors import TopologyError
from sim.units import KILO, ns


class Routes(NamedTuple):
    """Routes of many pairs at once, one row a (pair, link): ``share`` of the pair's bytes crosses that link."""

    pair: np.ndarray
    link: np.ndarray
    share: np.ndarray


Router = Callable[[np.ndarray, np.ndarray], Routes]
FAR = np.iinfo(np.int64).max // 4
"""The cost of no way at all."""


def no_routes() -> Routes:
    """Return routes without a row."""
    return Routes(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


def join(parts: Sequence[Routes]) -> Routes:
    """Concatenate the rows of several routes."""
    if not parts:
        return no_routes()
    return Routes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def on(pairs: np.ndarray, routes: Routes, share: float = 1.0) -> Routes:
    """Renumber the pairs of ``routes`` by ``pairs`` and scale their shares."""
    return Routes(pairs[routes.pair], routes.link, routes.share * share)


def merged(routes: Routes) -> Routes:
    """Add up rows of the same pair and link."""
    if not len(routes.pair):
        return routes
    size = int(routes.link.max()) + 1
    keys, inverse = np.unique(routes.pair * size + routes.link, return_inverse=True)
    return Routes(keys // size, keys % size, np.bincount(inverse, routes.share))


def nested(domain: np.ndarray, inside: Router, outside: Router) -> Router:
    """Route pairs of one ``domain`` (num_devices,) by ``inside``, all others by ``outside``."""

    def router(src: np.ndarray, dst: np.ndarray) -> Routes:
        near = domain[src] == domain[dst]
        if near.all():
            return inside(src, dst)
        if not near.any():
            return outside(src, dst)
        here, there = np.flatnonzero(near), np.flatnonzero(~near)
        return join(
            [
                on(here, inside(src[here], dst[here])),
                on(there, outside(src[there], dst[there])),
            ]
        )

    return router


def via(relay: np.ndarray, domain: np.ndarray, inside: Router, outside: Router) -> Router:
    """Route between domains through a neighbour on the receiver's rail (NCCL's PXN).

    ``relay(device, rail)`` is given as an array (num_domains, num_rails) of devices, -1 where there is none; a
    device's rail is its place in that array. The first leg runs inside the domain, the second outside.
    """
    rail = np.zeros(len(domain), np.int64)
    rows, columns = np.nonzero(relay >= 0)
    rail[relay[rows, columns]] = columns

    def router(src: np.ndarray, dst: np.ndarray) -> Routes:
        middle = relay[domain[src], rail[dst]]
        middle = np.where((middle < 0) | (domain[src] == domain[dst]), src, middle)
        hop = np.flatnonzero(middle != src)
        direct = nested(domain, inside, outside)(middle, dst)
        return join([on(hop, inside(src[hop], middle[hop])), direct])

    return router


def shortest_paths(
    src: np.ndarray,
    dst: np.ndarray,
    latency: np.ndarray,
    width: np.ndarray,
    vertex_name: Callable[[int], str],
    num_vertices: int,
) -> Router:
    """Return the router of any graph: least latency (then fewest hops), ties spread by cables hop by hop.

    ``src dst latency width`` describe the links; a link of width 0 is dead. Latencies are compared in whole
    picoseconds. A pair without a path raises `TopologyError`. One distance field is computed a destination.
    """
    cost = np.rint(latency / ns * KILO).astype(np.int64) * 64 + 1
    alive = np.flatnonzero(width > 0)
    by_src = alive[np.argsort(src[alive], kind="stable")]
    starts = np.searchsorted(src[by_src], np.arange(num_vertices + 1))
    distance = _distances(dst[by_src], cost[by_src], starts)

    def spread(pair: int, source: int, target: int) -> Routes:
        field = distance(target)
        if field[source] >= FAR:
            raise TopologyError(
                f"no path from {vertex_name(source)} to {vertex_name(target)}: every way is removed or missing; "
                "keep one of the links between them"
            )
        flow = {source: 1.0}
        rows: list[tuple[int, float]] = []
        while flow:
            vertex = max(flow, key=lambda v: int(field[v]))
            amount = flow.pop(vertex)
            if vertex == target:
                continue
            out = by_src[starts[vertex] : starts[vertex + 1]]
            out = out[field[dst[out]] + cost[out] == field[vertex]]
            part = amount * width[out] / width[out].sum()
            for link, share in zip(out.tolist(), part.tolist(), strict=True):
                rows.append((link, share))
                end = int(dst[link])
                flow[end] = flow.get(end, 0.0) + share
        links, shares = zip(*rows, strict=True)
        return Routes(np.full(len(rows), pair), np.array(links), np.array(shares))

    def router(sources: np.ndarray, targets: np.ndarray) -> Routes:
        ends = enumerate(zip(sources.tolist(), targets.tolist(), strict=True))
        return join([spread(pair, a, b) for pair, (a, b) in ends if a != b])

    return router


def _distances(
    dst: np.ndarray, cost: np.ndarray, starts: np.ndarray
) -> Callable[[int], np.ndarray]:
    """Return a function target -> cost from every vertex to it (`FAR`: no way); links lie sorted by source.

    Bellman and Ford's relaxation over all links at once, repeated until nothing changes; remembered by target.
    """
    filled = np.flatnonzero(starts[1:] > starts[:-1])
    fields: dict[int, np.ndarray] = {}

    def distance(target: int) -> np.ndarray:
        if target not in fields:
            field = np.full(len(starts) - 1, FAR, np.int64)
            field[target] = 0
            while len(filled):
                through = np.minimum(field[dst] + cost, FAR)
                best = np.minimum(field[filled], np.minimum.reduceat(through, starts[filled]))
                if np.array_equal(best, field[filled]):
                    break
                field[filled] = best
            fields[target] = field
        return fields[target]

    return distance


def detour(router: Router, dead: np.ndarray, other: Router) -> Router:
    """Route by ``router``, but send pairs that would cross a ``dead`` (num_links,) bool link by ``other``."""

    def around(src: np.ndarray, dst: np.ndarray) -> Routes:
        routes = router(src, dst)
        hit = np.unique(routes.pair[dead[routes.link]])
        if not len(hit):
            return routes
        keep = ~np.isin(routes.pair, hit)
        kept = Routes(routes.pair[keep], routes.link[keep], routes.share[keep])
        return join([kept, on(hit, other(src[hit], dst[hit]))])

    return around


def hashed(
    router: Router,
    first: np.ndarray,
    cables: np.ndarray,
    period: np.ndarray,
    seed: int,
    flows: int = 1,
) -> Router:
    """Route by ``router`` and pick single cables by a seeded hash of the pair, as ECMP does.

    Link i of ``router`` became ``cables[i]`` links from ``first[i]`` on; its cables j and j + ``period[i]`` join the
    same switches. A pair is ``flows`` flows of equal size; each draws one number, the switch it takes everywhere.
    """

    def pick(src: np.ndarray, dst: np.ndarray) -> Routes:
        routes = router(src, dst)
        size, step = cables[routes.link], period[routes.link]
        parts = []
        for flow in range(flows):
            draw = _draw(src, dst, seed * 65_537 + flow)[routes.pair]
            switch = draw % step
            turns = np.maximum(1, (size - switch + step - 1) // step)
            cable = switch + step * ((draw >> 31) % turns)
            cable = np.where(cable < size, cable, draw % size)
            parts.append(Routes(routes.pair, first[routes.link] + cable, routes.share / flows))
        return merged(join(parts)) if flows > 1 else parts[0]

    return pick


def _draw(src: np.ndarray, dst: np.ndarray, seed: int) -> np.ndarray:
    """Return a whole number below 2^62 for each pair: the splitmix64 finaliser of (src, dst, seed)."""
    with np.errstate(over="ignore"):
        x = src.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x ^= (dst.astype(np.uint64) + np.uint64(seed)) * np.uint64(0xC2B2AE3D27D4EB4F)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return (x >> np.uint64(2)).astype(np.int64)
