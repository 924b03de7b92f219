"""Rounds on the network: flows that start together and behave alike are one batch, links they load alike one resource.

Every transfer is a flow of its own. The batches are the coarsest partition of flows and links in which every link of a
class carries the same flows of each batch, and every flow of a batch crosses the same links of each class (an
equitable partition, found by colour refinement as in `sim.fold`). Max-min rates of such batches are those of their
flows, exactly, whichever of the patterns are under way; at the limit each flow is its own batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sim.cluster import Cluster
from sim.network.fair_share import Use
from sim.network.never_full import never_full
from sim.network.resources import reduce_links

MOST_REDUCED = 256
"""Batches up to which links that others always outbid drop out."""


class Pattern(NamedTuple):
    """Flows that start together: devices, and bytes of each (in any unit)."""

    src: np.ndarray
    dst: np.ndarray
    load: np.ndarray


@dataclass(frozen=True, slots=True)
class Batch:
    """``count`` flows of ``load`` that share one fate; ``uses``: what a resource carries of them for a byte of each."""

    load: float
    count: int
    uses: tuple[Use, ...]


class Batches(NamedTuple):
    """Batches of every pattern, capacities (bytes/s) of the resources they use, and the resource of each kept link."""

    of: list[tuple[Batch, ...]]
    capacity: list[float]
    resource_of_link: Mapping[int, int]


def batches(cluster: Cluster, patterns: Sequence[Pattern], keep: Sequence[int] = ()) -> Batches:
    """Partition the flows of ``patterns``; links in ``keep`` (whose bandwidth will change) are like no other."""
    if not patterns:
        return Batches([], [], {})
    src, dst, load = (np.concatenate(column) for column in zip(*patterns, strict=True))
    number = np.repeat(np.arange(len(patterns)), [len(p.src) for p in patterns])
    pair, link, share = cluster.routes(src, dst)
    if not keep:
        counts = ~never_full(cluster)[link]
        pair, link, share = pair[counts], link[counts], share[counts]
    used, link = np.unique(link, return_inverse=True)
    capacity = cluster.link_capacity[used]
    fixed = _codes(capacity)
    for place, kept in enumerate(keep):
        fixed[used == kept] = np.uint64(place + 1) * _SALT
    start = _mix(_codes(load) + _mix(number.astype(np.uint64)))
    flow_class, link_class = _refine(start, fixed, pair, link, _codes(share))
    first, of_flow = _by_first(flow_class)
    first_link, of_link = _by_first(link_class)
    shown = np.isin(link, first_link)
    rows, columns, loads = _sums(of_flow[pair[shown]], of_link[link[shown]], share[shown])
    uses, caps, kept_at = _resources(
        rows, columns, loads, used[first_link], cluster, keep, len(first)
    )
    counts = np.bincount(of_flow)
    found: list[list[Batch]] = [[] for _ in patterns]
    for batch, flow in enumerate(first):
        found[number[flow]].append(Batch(float(load[flow]), int(counts[batch]), uses[batch]))
    return Batches([tuple(each) for each in found], caps, kept_at)


def _refine(
    flows: np.ndarray, fixed: np.ndarray, pair: np.ndarray, link: np.ndarray, share: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Colours of flows and links, refined by what crosses what until their number stands still."""
    count = -1
    while True:
        links = fixed.copy()
        np.add.at(links, link, _mix(flows[pair] + share))
        links = _mix(links)
        through = _mix(flows)
        np.add.at(through, pair, _mix(links[link] ^ share))
        flows = _mix(through)
        new = len(np.unique(flows)) + len(np.unique(links))
        if new == count:
            return flows, links
        count = new


def _resources(
    rows: np.ndarray, columns: np.ndarray, loads: np.ndarray, names: np.ndarray,
    cluster: Cluster, keep: Sequence[int], num: int,
) -> tuple[Sequence[tuple[Use, ...]], list[float], Mapping[int, int]]:  # fmt: skip
    """What each batch (row) uses of each link class (column; ``names``: a link of each)."""
    ends = np.searchsorted(rows, np.arange(num + 1))
    spans = [slice(a, b) for a, b in pairwise(ends.tolist())]
    if num <= MOST_REDUCED:
        parts = [(names[columns[span]], loads[span]) for span in spans]
        return reduce_links(parts, cluster.link_capacity, keep)
    uses = [tuple(zip(columns[span].tolist(), loads[span].tolist(), strict=True)) for span in spans]
    place = {int(name): column for column, name in enumerate(names)}
    return uses, cluster.link_capacity[names].tolist(), {k: place[k] for k in keep if k in place}


def _sums(
    row: np.ndarray, column: np.ndarray, value: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add up values of the same row and column, sorted by row."""
    width = int(column.max(initial=0)) + 1
    key, where = np.unique(row * width + column, return_inverse=True)
    return key // width, key % width, np.bincount(where, value, minlength=len(key))


def _by_first(colour: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number colours by where they first appear: (first place of each, number of each entry)."""
    _, first, which = np.unique(colour, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[which]


_SALT = np.uint64(0x9E3779B97F4A7C15)


def _mix(values: np.ndarray) -> np.ndarray:
    """Hash 64 bits to 64 that look random (the finaliser of splitmix64)."""
    mixed = values + _SALT
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def _codes(values: np.ndarray) -> np.ndarray:
    """A number for each distinct value, equal where values agree to about 1e-10 of the largest."""
    scale = float(np.abs(values).max(initial=0.0)) or 1.0
    return _mix(np.rint(values / scale * 2.0**34).astype(np.uint64))
