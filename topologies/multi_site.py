"""Multi-site: several clusters (pods, data centres) whose top switches are joined by slow, long links."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from sim.cluster import Cluster, LinkKind, Links
from sim.errors import TopologyError
from sim.routing import Router, Routes, join, nested, on
from sim.units import km, us
from topologies.link_kinds import link_kind

FIBRE_DELAY = 5 * us / km
"""Seconds a metre of glass."""

PerPair = float | Sequence[Sequence[float]]


def multi_site(
    sites: Sequence[Cluster],
    *,
    bandwidth: PerPair,
    distance: PerPair,
    link: str = "fibre",
    cables: int = 1,
) -> Cluster:
    """Return ``sites`` as one cluster, every two joined directly, devices site by site.

    ``bandwidth`` raw bytes/s and ``distance`` metres from site i to site j: one number, or rows [i][j] (asymmetric
    allowed). Raises `TopologyError` for one site, a site with no network to leave by, or rates not above 0.
    """
    if len(sites) < 2:
        raise TopologyError(f"{len(sites)} site cannot be joined; give at least 2")
    for site in sites:
        if site.exits is None:
            raise TopologyError(
                f"site {site.name} has no network to leave by; choose a cluster of several hosts or slices"
            )
    places = _vertices(sites)
    kinds: list[LinkKind] = []
    for kind in [*(k for site in sites for k in site.link_kinds), link_kind(link)]:
        if kind not in kinds:
            kinds.append(kind)
    links, offsets = _links(sites, places, kinds)
    rates = _matrix(bandwidth, len(sites))
    wan, table = _wan(sites, places, rates, distance, (link_kind(link), kinds, cables))
    table = np.where(table < 0, -1, table + len(links))
    counts = [site.num_devices for site in sites]
    site_of = np.repeat(np.arange(len(sites)), counts)
    base = np.cumsum(counts) - counts
    outside = _between(sites, site_of, base, offsets, table)
    names, vertex_kind, vertex_count = _described(sites, places)
    return replace(
        sites[0],
        name="multi-site",
        family="multi_site",
        device_kinds=tuple(dict.fromkeys(d for site in sites for d in site.device_kinds)),
        device_kind=_device_kinds(sites),
        host=_numbered([site.host for site in sites]),
        domain=_numbered([site.domain for site in sites]),
        vertex_kind=vertex_kind,
        vertex_name=names,
        vertex_count=vertex_count,
        link_kinds=tuple(kinds),
        links=_joined([links, wan]),
        router=nested(site_of, _local(sites, site_of, base, offsets), outside),
        facts=_facts(sites, rates),
        parameters={"sites": tuple(site.name for site in sites), "num_devices": sum(counts)},
        assumptions=tuple(dict.fromkeys(text for site in sites for text in site.assumptions)),
        coordinates=None,
        shape=(),
        wrap=(),
        top=-1,
        exits=None,
    )


def _wan(
    sites: Sequence[Cluster],
    places: Sequence[np.ndarray],
    rates: np.ndarray,
    distance: PerPair,
    cable: tuple[LinkKind, Sequence[LinkKind], int],
) -> tuple[Links, np.ndarray]:
    """Return the links between every two sites' tops, and which one leads from i to j (-1: none)."""
    kind, kinds, width = cable
    lengths = _matrix(distance, len(sites))
    ways = list(permutations(range(len(sites)), 2))
    if min(rates[i, j] for i, j in ways) <= 0 or lengths.min() < 0:
        raise TopologyError(
            f"bandwidth={rates.tolist()} between sites must be above 0 and distance={distance} not negative"
        )
    table = np.full((len(sites), len(sites)), -1)
    for number, (i, j) in enumerate(ways):
        table[i, j] = number
    links = Links(
        src=np.array([places[i][sites[i].top] for i, _ in ways]),
        dst=np.array([places[j][sites[j].top] for _, j in ways]),
        bandwidth=np.array([rates[i, j] for i, j in ways]),
        latency=np.array([lengths[i, j] * FIBRE_DELAY + kind.latency for i, j in ways]),
        width=np.full(len(ways), width),
        kind=np.full(len(ways), kinds.index(kind)),
    )
    return links, table


def _described(
    sites: Sequence[Cluster], places: Sequence[np.ndarray]
) -> tuple[Callable[[int], str], tuple[str, ...], np.ndarray]:
    """Return the name (``site0/...``), kind and count of every vertex of the whole."""
    order = np.argsort(np.concatenate(places))
    owner = np.repeat(np.arange(len(sites)), [site.num_vertices for site in sites])[order]
    old = np.concatenate([np.arange(site.num_vertices) for site in sites])[order]
    kinds = [kind for site in sites for kind in site.vertex_kind]
    names = [site.vertex_name for site in sites]

    def name(vertex: int) -> str:
        return f"site{owner[vertex]}/{names[owner[vertex]](int(old[vertex]))}"

    counts = np.concatenate([site.vertex_count for site in sites])[order]
    return name, tuple(kinds[i] for i in order.tolist()), counts


def _matrix(value: PerPair, sites: int) -> np.ndarray:
    """Return a number or rows as (sites, sites)."""
    rows = np.asarray(value, np.float64)
    if rows.ndim not in (0, 2) or (rows.ndim == 2 and rows.shape != (sites, sites)):
        raise TopologyError(
            f"{value} is not one number or {sites} rows of {sites}; give one of these"
        )
    return np.broadcast_to(rows, (sites, sites))


def _vertices(sites: Sequence[Cluster]) -> list[np.ndarray]:
    """Return where each site's vertices go: all devices first, then all switches."""
    devices = sum(site.num_devices for site in sites)
    places, next_device, next_switch = [], 0, devices
    for site in sites:
        switches = site.num_vertices - site.num_devices
        places.append(
            np.concatenate(
                [
                    np.arange(next_device, next_device + site.num_devices),
                    np.arange(next_switch, next_switch + switches),
                ]
            )
        )
        next_device += site.num_devices
        next_switch += switches
    return places


def _links(
    sites: Sequence[Cluster], places: Sequence[np.ndarray], kinds: Sequence[LinkKind]
) -> tuple[Links, np.ndarray]:
    """Return all sites' links on the new vertices, and where each site's begin."""
    parts = []
    for site, place in zip(sites, places, strict=True):
        kind = np.array([kinds.index(k) for k in site.link_kinds])
        parts.append(
            replace(
                site.links,
                src=place[site.links.src],
                dst=place[site.links.dst],
                kind=kind[site.links.kind],
            )
        )
    lengths = [len(part) for part in parts]
    return _joined(parts), np.cumsum(lengths) - lengths


def _joined(parts: Sequence[Links]) -> Links:
    """Concatenate links."""
    return Links(
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("src", "dst", "bandwidth", "latency", "width", "kind")
        }
    )


def _numbered(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate numberings, each after the last."""
    out, first = [], 0
    for part in parts:
        out.append(part + first)
        first += int(part.max()) + 1
    return np.concatenate(out)


def _device_kinds(sites: Sequence[Cluster]) -> np.ndarray:
    """Return the kind of each device among the distinct devices of all sites."""
    kinds = list(dict.fromkeys(d for site in sites for d in site.device_kinds))
    return np.concatenate(
        [np.array([kinds.index(d) for d in s.device_kinds])[s.device_kind] for s in sites]
    )


def _local(
    sites: Sequence[Cluster], site_of: np.ndarray, base: np.ndarray, offsets: np.ndarray
) -> Router:
    """Return the router of pairs of one site."""

    def router(src: np.ndarray, dst: np.ndarray) -> Routes:
        parts = []
        for number in np.unique(site_of[src]).tolist():
            pairs = np.flatnonzero(site_of[src] == number)
            first = base[number]
            found = sites[number].router(src[pairs] - first, dst[pairs] - first)
            parts.append(Routes(pairs[found.pair], found.link + offsets[number], found.share))
        return join(parts)

    return router


def _between(
    sites: Sequence[Cluster],
    site_of: np.ndarray,
    base: np.ndarray,
    offsets: np.ndarray,
    table: np.ndarray,
) -> Router:
    """Return the router of pairs of two sites: to the top, across, from the top."""

    def legs(devices: np.ndarray, way: int) -> list[Routes]:
        parts = []
        for number in np.unique(site_of[devices]).tolist():
            pairs = np.flatnonzero(site_of[devices] == number)
            leave: Callable[[np.ndarray], tuple[Routes, Routes]] | None = sites[number].exits
            assert leave is not None
            found = leave(devices[pairs] - base[number])[way]
            parts.append(on(pairs, Routes(found.pair, found.link + offsets[number], found.share)))
        return parts

    def router(src: np.ndarray, dst: np.ndarray) -> Routes:
        across = Routes(np.arange(len(src)), table[site_of[src], site_of[dst]], np.ones(len(src)))
        return join([*legs(src, 0), across, *legs(dst, 1)])

    return router


def _facts(sites: Sequence[Cluster], rates: np.ndarray) -> dict[str, float]:
    """Return what adds up over the sites, and the bytes/s between halves of them.

    Between halves pass no more than the links between sites carry, nor than a half's devices inject (twice its own
    bisection).
    """
    shared = set.intersection(*(set(site.facts) for site in sites)) - {"bisection_Bps"}
    facts = {name: sum(site.facts[name] for site in sites) for name in sorted(shared)}
    half = len(sites) // 2
    facts["sites"] = float(len(sites))
    inject = [2 * site.facts["bisection_Bps"] for site in sites]
    facts["bisection_Bps"] = float(
        min(rates[:half, half:].sum(), sum(inject[:half]), sum(inject[half:]))
    )
    return facts
