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


def whole(cluster: Cluster, groups: np.ndarray) -> Block:
    """Groups as one block in the order given, each counted as one domain if it sits in one, else member by member."""
    domain = np.asarray(cluster.domain)[groups]
    n = groups.shape[1]
    return Block(groups, (n,) if (domain == domain[:, :1]).all() else (1,) * n)


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
    """Ask the graph what joins the members of the first group."""
    mesh, least, fabric = False, 0, False
    first = members[0]
    inside = first[: sizes[0]]
    if sizes[0] > 1:
        mesh = _meshed(cluster, inside)
        least = int(_constant(cluster, inside[0], inside[1], "nvls_min_devices"))
    if len(sizes) > 1:
        fabric = _constant(cluster, first[0], first[sizes[0]], "sharp") > 0
    rows, shape, wraps = _box(cluster, members)
    return Block(
        rows,
        sizes,
        mesh=mesh,
        shape=shape,
        wraps=wraps,
        switch_reduces=least > 0 and not mesh,
        fabric_reduces=fabric,
        min_nvls=least,
    )


def _meshed(cluster: Cluster, inside: np.ndarray) -> bool:
    """Whether one device has a link of its own to every other."""
    routes = cluster.router(np.repeat(inside[:1], len(inside) - 1), inside[1:])
    return len(routes.pair) == len(inside) - 1 == len(np.unique(routes.link))


def _constant(cluster: Cluster, a: int, b: int, name: str) -> float:
    """The largest value of a constant along a route."""
    link = cluster.router(np.array([a]), np.array([b])).link
    kinds = np.unique(cluster.links.kind[link])
    return max((cluster.link_kinds[k].constants.get(name, 0.0) for k in kinds), default=0.0)


def _box(
    cluster: Cluster, members: np.ndarray
) -> tuple[np.ndarray, tuple[int, ...], tuple[bool, ...]]:
    """Members sorted by torus coordinates, extent and closure of each axis, where every group is a whole box."""
    domain = np.asarray(cluster.domain)[members]
    if cluster.coordinates is None or not cluster.shape or (domain != domain[:, :1]).any():
        return members, (), ()
    place = np.asarray(cluster.coordinates)[members]
    low, high = place.min(axis=1), place.max(axis=1)
    shape = tuple(int(x) for x in high[0] - low[0] + 1)
    if not (high - low + 1 == shape).all() or int(np.prod(shape)) != members.shape[1]:
        return members, (), ()
    code = np.zeros(members.shape, dtype=np.int64)
    for axis, x in enumerate(shape):
        code = code * x + place[..., axis] - low[:, None, axis]
    rows = np.take_along_axis(members, np.argsort(code, axis=1), axis=1)
    wraps = tuple(
        x == whole and w for x, whole, w in zip(shape, cluster.shape, cluster.wrap, strict=True)
    )
    return rows, shape, wraps
