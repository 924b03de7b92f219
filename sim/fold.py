"""Folding: ranks that must behave alike form one class and are simulated once.

The classes are the coarsest stable partition that tells apart ranks with different scripts or
devices, and, again and again until nothing changes: members of groups whose other members differ,
whose links differ (capacity, latency, or what other classes put on them), and ranks whose pipeline
peers differ. Partition refinement (Paige and Tarjan's idea; here by colours, as in Weisfeiler and
Leman's graph test). Colours of links and groups are random linear combinations of what they
summarise, so one pass is a few `bincount` over arrays; the seed is fixed.

``unfolded`` gives every rank a class of its own: the same engine then plays every rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.cluster import Cluster, Routes
from sim.collectives.traffic import traffic
from sim.errors import ProgramError
from sim.network.never_full import never_full
from sim.program import Collective, Program


@dataclass(frozen=True, slots=True, eq=False)
class GroupClass:
    """Groups of one axis that behave alike: ``ranks`` (num_groups, degree), ``members`` the rank classes in them."""

    axis: str
    index: int
    ranks: np.ndarray
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PairClass:
    """Sends of one channel that behave alike: from class ``src`` to class ``dst``; ``ranks`` (num_pairs, 2)."""

    channel: str
    index: int
    ranks: np.ndarray
    src: int
    dst: int


@dataclass(frozen=True, slots=True, eq=False)
class Folding:
    """Rank classes, and who meets whom.

    ``rank_class`` (num_ranks,); ``representative`` (num_classes,) the lowest rank of each; ``size`` ranks a class.
    ``group_of[(axis, rank class)]``, ``sends_to[(channel, rank class)]``, ``receives_from[(channel, rank class)]``.
    """

    rank_class: np.ndarray
    representative: np.ndarray
    size: np.ndarray
    group_of: Mapping[tuple[str, int], GroupClass]
    sends_to: Mapping[tuple[str, int], PairClass]
    receives_from: Mapping[tuple[str, int], PairClass]

    @property
    def num_classes(self) -> int:
        """How many rank classes there are."""
        return len(self.representative)


@dataclass(slots=True, eq=False)
class _Axis:
    """Flows of one axis (or channel), what they cross (``flow_group``) and carry (``flow_weight``)."""

    name: str
    ranks: np.ndarray
    routes: Routes
    flow_group: np.ndarray
    flow_weight: np.ndarray
    ordered: bool


def fold(
    program: Program,
    cluster: Cluster,
    device_of: np.ndarray,
    *,
    unfolded: bool = False,
    marked_links: Sequence[int] = (),
) -> Folding:
    """Partition the ranks of a program on a cluster.

    ``device_of`` (num_ranks,) says where each rank sits; ``marked_links`` will change and are like no other link.
    """
    uses = _uses(program)
    axes = [_group_axis(a, g, uses[a], cluster, device_of) for a, g in program.groups.items()]
    axes += [_channel_axis(c, p, cluster, device_of) for c, p in program.peers.items()]
    if unfolded:
        colour = np.arange(program.num_ranks)
    else:
        start = program.script_of_rank * len(cluster.device_kinds) + cluster.device_kind[device_of]
        colour = _refine(start, axes, cluster, marked_links)
    return _collect(colour, axes, program)


def _group_axis(
    name: str,
    ranks: np.ndarray,
    uses: list[tuple[str, str]],
    cluster: Cluster,
    device_of: np.ndarray,
) -> _Axis:
    """The flows of what the groups run."""
    if ranks.size and np.bincount(ranks.ravel()).max() > 1:
        raise ProgramError(f"groups of axis {name!r} list a rank twice")
    if ranks.shape[1] == 1 or not uses:
        empty = np.zeros(0, dtype=np.int64)
        return _Axis(
            name, ranks, Routes(empty, empty, np.zeros(0)), empty, np.zeros(0), ordered=False
        )
    flows = traffic(cluster, device_of[ranks], uses)
    routes = cluster.routes(flows.src, flows.dst)
    return _Axis(name, ranks, routes, flows.group, flows.weight, ordered=False)


def _uses(program: Program) -> dict[str, list[tuple[str, str]]]:
    """Return the (kind, algorithm) pairs that run on each axis."""
    found: dict[str, dict[tuple[str, str], None]] = {axis: {} for axis in program.groups}
    seen: set[int] = set()
    for script in program.scripts:
        for segments in script.streams.values():
            for segment in segments:
                if id(segment.ops) in seen:
                    continue
                seen.add(id(segment.ops))
                for op in segment.ops:
                    if isinstance(op, Collective) and op.axis in found:
                        found[op.axis][op.kind, op.algorithm] = None
    return {axis: list(pairs) for axis, pairs in found.items()}


def _channel_axis(name: str, peers: np.ndarray, cluster: Cluster, device_of: np.ndarray) -> _Axis:
    src = np.flatnonzero(peers >= 0)
    pairs = np.stack([src, peers[src]], axis=1)
    routes = cluster.routes(device_of[pairs[:, 0]], device_of[pairs[:, 1]])
    return _Axis(name, pairs, routes, np.arange(len(src)), np.ones(len(src)), ordered=True)


def _refine(
    colour: np.ndarray, axes: list[_Axis], cluster: Cluster, marked: Sequence[int]
) -> np.ndarray:
    """Refine until the number of colours stands still."""
    random = np.random.default_rng(20261129)
    colour = np.unique(colour, return_inverse=True)[1]
    links = cluster.links
    binding = np.ones(len(links.bandwidth)) if len(marked) else (~never_full(cluster)).astype(float)
    fixed = _colour_of(links.latency) * np.pi
    fixed += binding * (_colour_of(links.bandwidth) * np.e + links.kind * np.sqrt(2.0))
    fixed[list(marked)] += 1.0 + np.arange(len(marked)) / 7.0
    salts = random.uniform(1.0, 2.0, size=(len(axes), 4))
    count = colour.max() + 1
    while True:
        hashed = random.uniform(1.0, 2.0, size=count)[colour]
        groups = [
            _group_colours(axis, hashed, salt) for axis, salt in zip(axes, salts, strict=True)
        ]
        traffic = fixed.copy()
        for axis, own in zip(axes, groups, strict=True):
            weight = (own[axis.flow_group] * axis.flow_weight)[axis.routes.pair] * axis.routes.share
            traffic += binding * np.bincount(
                axis.routes.link, weights=weight, minlength=len(traffic)
            )
        link_hash = _scatter(traffic)
        columns = [colour.astype(float)]
        for axis, own in zip(axes, groups, strict=True):
            crossing = link_hash[axis.routes.link] * axis.routes.share
            route = np.bincount(axis.routes.pair, crossing, minlength=len(axis.flow_group))
            through = np.bincount(
                axis.flow_group, _scatter(route) * axis.flow_weight, minlength=len(axis.ranks)
            )
            columns.extend(_rank_columns(axis, own * np.e + through, len(colour)))
        refined = _partition(columns)
        new = refined.max() + 1
        if new == count:
            return colour
        colour, count = refined, new


def _group_colours(axis: _Axis, hashed: np.ndarray, salt: np.ndarray) -> np.ndarray:
    if axis.ordered:
        return np.asarray(salt[0] * hashed[axis.ranks[:, 0]] + salt[1] * hashed[axis.ranks[:, 1]])
    total = hashed[axis.ranks].sum(axis=1)
    return np.asarray(salt[2] + salt[3] * total)


def _rank_columns(axis: _Axis, colour: np.ndarray, num_ranks: int) -> list[np.ndarray]:
    """What a rank sees of its group (of both ends, for a channel)."""
    ends = [axis.ranks[:, 0], axis.ranks[:, 1]] if axis.ordered else [axis.ranks]
    columns = []
    for end in ends:
        column = np.full(num_ranks, -1.0)
        column[end] = colour if end.ndim == 1 else colour[:, None]
        columns.append(column)
    return columns


def _grid(values: np.ndarray) -> np.ndarray:
    """Integers that agree where values agree to about 1e-10 of their size (rounding noise is smaller)."""
    scale = float(np.abs(values).max(initial=1.0)) or 1.0
    return np.asarray(np.rint(values / scale * 2.0**34), dtype=np.int64)


def _colour_of(values: np.ndarray) -> np.ndarray:
    """Small integers, equal where the values are."""
    return np.unique(_grid(values), return_inverse=True)[1].astype(float)


def _mix(values: np.ndarray) -> np.ndarray:
    """Hash each number (to about 1e-10 of the largest) to 64 bits that look random (Fibonacci hashing)."""
    mixed = _grid(values).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(mixed ^ (mixed >> np.uint64(32)))


def _scatter(values: np.ndarray) -> np.ndarray:
    """Map each distinct value to a number in [1, 2) that looks random."""
    return 1.0 + (_mix(values) >> np.uint64(11)).astype(float) * 2.0**-53


def _partition(columns: list[np.ndarray]) -> np.ndarray:
    """Number the distinct rows of the columns, (num_ranks,)."""
    key = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        key = key * np.uint64(0x100000001B3) + _mix(column)
    return np.unique(key, return_inverse=True)[1]


def _collect(colour: np.ndarray, axes: list[_Axis], program: Program) -> Folding:
    order, representative, size = np.unique(colour, return_index=True, return_counts=True)
    by_first = np.argsort(representative)
    renumber = np.empty_like(by_first)
    renumber[by_first] = np.arange(len(order))
    rank_class = renumber[colour]
    group_of: dict[tuple[str, int], GroupClass] = {}
    sends: dict[tuple[str, int], PairClass] = {}
    receives: dict[tuple[str, int], PairClass] = {}
    for axis in axes:
        for index, (members, ranks) in enumerate(_alike(axis, rank_class)):
            if axis.ordered:
                pair = PairClass(axis.name, index, ranks, members[0], members[1])
                sends[axis.name, members[0]] = pair
                receives[axis.name, members[1]] = pair
            else:
                own = GroupClass(axis.name, index, ranks, tuple(sorted(set(members))))
                for member in own.members:
                    group_of[axis.name, member] = own
    return Folding(rank_class, representative[by_first], size[by_first], group_of, sends, receives)


def _alike(axis: _Axis, rank_class: np.ndarray) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Groups with the same member classes, together: (members of one of them, ranks of all)."""
    if not len(axis.ranks):
        return []
    classes = rank_class[axis.ranks]
    key = (
        classes[:, 0] * (rank_class.max() + 1) + classes[:, 1]
        if axis.ordered
        else classes.min(axis=1)
    )
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return [
        (tuple(int(c) for c in classes[f]), axis.ranks[which == i]) for i, f in enumerate(first)
    ]
