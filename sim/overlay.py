"""Overlays: a cluster with slow, broken or missing links, or with hashed instead of ideal routing.

``degrade`` takes lines, or one text with commas between them. A line is ``TARGET*FACTOR``: every link of the target
runs at FACTOR of its rate; 0 removes it. Targets:

- ``leaf0->spine3``: one direction between two vertices; ``leaf0<->spine3`` both; ``*`` and ``?`` match names;
- ``spine3``: every link of a switch or device;
- ``leaf0->spine:2``: two cables of that trunk.

One cable of a trunk lowers the trunk by its share. Traffic of a removed trunk goes the shortest other way.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import translate

import numpy as np

from sim.cluster import Cluster, Links
from sim.errors import TopologyError, unknown
from sim.routing import Router, detour, hashed, shortest_paths


def degrade(cluster: Cluster, lines: str | Sequence[str]) -> Cluster:
    """Return the cluster with the links named by ``lines`` slowed or removed.

    A removed link keeps its index with width and bandwidth 0. Raises `TopologyError` for a line that cannot be read or
    matches nothing; a pair with no other way raises it when it is routed.
    """
    bandwidth, width = cluster.links.bandwidth.copy(), cluster.links.width.copy()
    names = [cluster.vertex_name(v) for v in range(cluster.num_vertices)]
    for line in lines.split(",") if isinstance(lines, str) else lines:
        target, cables, factor = _parse(line)
        hit = _cables(cluster, target, names, width)
        if not hit.any():
            raise TopologyError(unknown("link", target, _known(cluster, names)))
        if cables > hit[hit > 0].min():
            raise TopologyError(
                f"{line!r} wants {cables} cables where {target!r} has {int(hit[hit > 0].min())}; name at most those"
            )
        hit = np.minimum(hit, cables) if cables else hit
        share = hit / np.maximum(width, 1)
        bandwidth *= 1 - share * (1 - factor)
        if factor == 0:
            width = width - hit
    bandwidth[width == 0] = 0.0
    links = replace(cluster.links, bandwidth=bandwidth, width=width)
    return replace(cluster, links=links, router=_around(cluster, links))


def _around(cluster: Cluster, links: Links) -> Router:
    """Return the router that avoids dead links."""
    dead = links.width == 0
    if not dead.any():
        return cluster.router
    others = shortest_paths(
        links.src,
        links.dst,
        links.latency,
        links.width,
        cluster.vertex_name,
        cluster.num_vertices,
    )
    return detour(cluster.router, dead, others)


def _parse(line: str) -> tuple[str, int, float]:
    """Return (target, cables or 0 for all, factor) of a line."""
    target, star, text = line.rpartition("*")
    try:
        factor = float(text) if star else -1.0
    except ValueError:
        factor = -1.0
    if not target or not 0 <= factor <= 1:
        raise TopologyError(
            f"degrade line {line!r} is not TARGET*FACTOR with FACTOR from 0 (removed) to 1; write leaf0->spine*0.5"
        )
    target, colon, count = target.strip().partition(":")
    if colon and not (count.isdigit() and int(count) > 0):
        raise TopologyError(
            f"degrade line {line!r}: {count!r} cables; write a number above 0 after the colon"
        )
    return target, int(count) if colon else 0, factor


def _cables(cluster: Cluster, target: str, names: Sequence[str], width: np.ndarray) -> np.ndarray:
    """Return how many cables of each link the target names (num_links,)."""
    both = "<->" in target
    tail, arrow, head = target.partition("<->" if both else "->")
    tails = _switches(cluster, tail.strip(), names)
    if not arrow:
        both_ways: np.ndarray = np.maximum(
            _meet(cluster, tails, None, width), _meet(cluster, None, tails, width)
        )
        return both_ways
    heads = _switches(cluster, head.strip(), names)
    there = _meet(cluster, tails, heads, width)
    if both:
        there = np.maximum(there, _meet(cluster, heads, tails, width))
    return there


def _switches(cluster: Cluster, pattern: str, names: Sequence[str]) -> dict[int, np.ndarray | None]:
    """Return the vertices a pattern names, each with a mask of its switches (None: all of them)."""
    match = re.compile(translate(pattern)).match
    found: dict[int, np.ndarray | None] = {}
    for vertex, (name, count) in enumerate(zip(names, cluster.vertex_count.tolist(), strict=True)):
        if match(name):
            found[vertex] = None
        elif vertex >= cluster.num_devices:
            mask = np.array([bool(match(f"{name}{i}")) for i in range(count)])
            if mask.any():
                found[vertex] = mask
    return found


def _meet(
    cluster: Cluster,
    tails: dict[int, np.ndarray | None] | None,
    heads: dict[int, np.ndarray | None] | None,
    width: np.ndarray,
) -> np.ndarray:
    """Return how many cables of each link leave ``tails`` and end in ``heads`` (None: anywhere).

    Cable i of a trunk joins switch i modulo the count of either end, as `Cluster.graph` draws it.
    """
    links = cluster.links
    sides = [(e, v) for e, v in ((tails, links.src), (heads, links.dst)) if e is not None]
    chosen = width > 0
    partial = np.zeros(len(links), bool)
    for ends, vertices in sides:
        kind = np.zeros(cluster.num_vertices, np.int64)
        for vertex, mask in ends.items():
            kind[vertex] = 1 if mask is None else 2
        chosen = chosen & (kind[vertices] > 0)
        partial |= kind[vertices] == 2
    hit = np.where(chosen, width, 0)
    for link in np.flatnonzero(chosen & partial).tolist():
        cable = np.arange(int(width[link]))
        for ends, vertices in sides:
            mask = ends[int(vertices[link])]
            if mask is not None:
                cable = cable[mask[cable % len(mask)]]
        hit[link] = len(cable)
    return hit


def _known(cluster: Cluster, names: Sequence[str]) -> list[str]:
    """Return some names of links to suggest: one of every pair of vertex kinds."""
    seen: dict[tuple[str, str], str] = {}
    for a, b in zip(cluster.links.src.tolist(), cluster.links.dst.tolist(), strict=True):
        seen.setdefault((cluster.vertex_kind[a], cluster.vertex_kind[b]), f"{names[a]}->{names[b]}")
    return list(seen.values())


def ecmp(cluster: Cluster, seed: int = 0, flows: int = 1) -> Cluster:
    """Return the cluster with hashed routing: every flow keeps to one cable of a trunk between switches.

    The switches of counted vertices and the cables of their trunks become vertices and links of their own; trunks to
    devices stay whole. A pair sends ``flows`` flows; two pairs may share a cable while another idles. Raises
    `TopologyError` where no trunk between switches has two cables.
    """
    if flows < 1:
        raise TopologyError(f"flows={flows} must be at least 1")
    links, n = cluster.links, cluster.num_devices
    between = (links.src >= n) & (links.dst >= n)
    if not (between & (links.width > 1)).any():
        raise TopologyError(
            f"routing='ecmp' has no effect on {cluster.name}: no trunk between switches has two cables; "
            "choose routing='adaptive'"
        )
    count = cluster.vertex_count.copy()
    count[np.concatenate([links.src[links.dst < n], links.dst[links.src < n]])] = 1
    cables = np.where(between, np.maximum(links.width, 1), 1)
    drawn, vertex, place = _drawn(cluster, count)
    link = np.repeat(np.arange(len(links)), cables)
    first = np.cumsum(cables) - cables
    cable = np.arange(len(link)) - first[link]
    spread = Links(
        src=vertex(links.src[link], cable),
        dst=vertex(links.dst[link], cable),
        bandwidth=links.bandwidth[link] / cables[link],
        latency=links.latency[link],
        width=np.where(between[link], np.minimum(links.width[link], 1), links.width[link]),
        kind=links.kind[link],
    )
    period = np.lcm(count[links.src], count[links.dst])
    name = cluster.vertex_name
    return replace(
        cluster,
        links=spread,
        vertex_kind=tuple(cluster.vertex_kind[v] for v in drawn.tolist()),
        vertex_count=np.where(count[drawn] > 1, 1, cluster.vertex_count[drawn]),
        vertex_name=lambda v: (
            f"{name(int(drawn[v]))}{int(place[v])}" if count[drawn[v]] > 1 else name(int(drawn[v]))
        ),
        router=hashed(cluster.router, first, cables, period, seed, flows),
    )


def _drawn(
    cluster: Cluster, count: np.ndarray
) -> tuple[np.ndarray, Callable[[np.ndarray, np.ndarray], np.ndarray], np.ndarray]:
    """Return the old vertex of each new one, a map (old vertex, cable) -> new one, and the places among equals."""
    n = len(count)
    extra = np.repeat(np.arange(n), count - 1)
    starts = n + np.cumsum(count - 1) - (count - 1)
    drawn = np.concatenate([np.arange(n), extra])
    place = np.concatenate([np.zeros(n, np.int64), np.arange(len(extra)) + n - starts[extra] + 1])

    def vertex(old: np.ndarray, cable: np.ndarray) -> np.ndarray:
        switch = cable % count[old]
        return np.where(switch == 0, old, starts[old] + switch - 1)

    return drawn, vertex, place
