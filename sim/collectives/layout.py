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
    if (label == label[:1]).all():
        return (_described(cluster, members, label[0]),)
    patterns, which = np.unique(label, axis=0, return_inverse=True)
    which = which.ravel()
    return tuple(
        _described(cluster, members[which == i], pattern) for i, pattern in enumerate(patterns)
    )


def _described(cluster: Cluster, rows: np.ndarray, pattern: np.ndarray) -> Block:
    return _describe(cluster, rows, tuple(int(c) for c in np.bincount(pattern)))


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
    inner = None
    if len(sizes) > 1 and len(set(sizes)) == 1 and sizes[0] > 1:
        inner = _describe(cluster, members.reshape(-1, sizes[0]), (sizes[0],))
    return Block(
        rows,
        sizes,
        inner=inner,
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
    """Members sorted by torus coordinates, extent and closure of each axis, where every group is a box of
    planes.
    """
    domain = np.asarray(cluster.domain)[members]
    if cluster.coordinates is None or not cluster.shape or (domain != domain[:, :1]).any():
        return members, (), ()
    place = np.asarray(cluster.coordinates)[members]
    shape, wraps = [], []
    code = np.zeros(members.shape, dtype=np.int64)
    for axis, (extent, closed) in enumerate(zip(cluster.shape, cluster.wrap, strict=True)):
        rank, counts, gaps = _ranked(place[..., axis])
        if len(set(counts.tolist())) > 1:
            return members, (), ()
        x = int(counts[0])
        code = code * x + rank
        shape.append(x)
        even = len(gaps) == 1
        wraps.append(bool(closed and even and x * gaps[0] == extent))
    order = np.argsort(code, axis=1)
    whole_box = int(np.prod(shape)) == members.shape[1]
    if (
        not whole_box
        or (np.take_along_axis(code, order, axis=1) != np.arange(members.shape[1])).any()
    ):
        return members, (), ()
    return np.take_along_axis(members, order, axis=1), tuple(shape), tuple(wraps)


def _ranked(value: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rank of each value among the distinct ones of its row, how many a row has, and the gaps between them."""
    order = np.argsort(value, axis=1, kind="stable")
    ranked = np.take_along_axis(value, order, axis=1)
    gap = np.diff(ranked, axis=1)
    rank = np.zeros_like(order)
    rank[:, 1:] = np.cumsum(gap > 0, axis=1)
    result = np.empty_like(rank)
    np.put_along_axis(result, order, rank, axis=1)
    return result, rank[:, -1] + 1, np.unique(gap[gap > 0])
