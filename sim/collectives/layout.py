"""Layout of groups on a machine: which members share a scale-up domain, and what its switches can do."""

import numpy as np

from sim.cluster import Cluster
from sim.collectives.stage import Block


def blocks(cluster: Cluster, groups: np.ndarray) -> tuple[Block, ...]:
    """Sort groups into blocks of equal domain sizes; members sorted by domain, their order kept inside it."""
    domain = np.asarray(cluster.domain)[groups]
    order = np.argsort(_first_seen(domain), axis=1, kind="stable")
    members = np.take_along_axis(groups, order, axis=1)
    label = _first_seen(np.take_along_axis(domain, order, axis=1))
    patterns, which = np.unique(label, axis=0, return_inverse=True)
    which = which.ravel()
    result = []
    for i, pattern in enumerate(patterns):
        rows = members[which == i]
        sizes = tuple(int(c) for c in np.bincount(pattern))
        result.append(_describe(cluster, rows, sizes))
    return tuple(result)


def _first_seen(domain: np.ndarray) -> np.ndarray:
    """Number the domains of each group by where they first appear in it."""
    order = np.argsort(domain, axis=1, kind="stable")
    ranked = np.take_along_axis(domain, order, axis=1)
    place = np.arange(domain.shape[1])
    new = np.ones_like(ranked, dtype=bool)
    new[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    start = np.maximum.accumulate(np.where(new, place, 0), axis=1)
    first = np.empty_like(order)
    np.put_along_axis(first, order, np.take_along_axis(order, start, axis=1), axis=1)
    number = np.cumsum(first == place, axis=1) - 1
    return np.take_along_axis(number, first, axis=1)


def _describe(cluster: Cluster, members: np.ndarray, sizes: tuple[int, ...]) -> Block:
    """Ask the graph what joins the members of the first domain of the first group."""
    inside = members[0, : sizes[0]] if max(sizes) == sizes[0] else members[0]
    mesh, reduces, least = False, False, 2
    if len(inside) > 1 and sizes[0] > 1:
        routes = cluster.router(np.repeat(inside[:1], len(inside) - 1), inside[1:])
        links = cluster.links
        hops = np.bincount(routes.pair, minlength=len(inside) - 1)
        mesh = bool((hops == 1).all()) and len(set(routes.link.tolist())) == len(inside) - 1
        kind = cluster.link_kinds[int(links.kind[routes.link[0]])]
        least = int(kind.constants.get("nvls_min_devices", 0))
        reduces = least > 0 and not mesh
    return Block(members, sizes, mesh=mesh, switch_reduces=reduces, min_nvls=least)
