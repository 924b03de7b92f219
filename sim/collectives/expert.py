"""Expert-parallel all-to-all of items with several destinations: once to a domain, then on to its members.

An item for ``f`` random members crosses to each domain that holds any of them once, to the member at the sender's place
there (its rail), which passes it on inside; so a NIC carries 1 - (1 - s)^f of the items for a domain of share s of all
members, not f s of them. Where items keep to M of K domains: M/K (1 - (1 - 1/M)^f) each.
Source: DeepEP (deepseek-ai/DeepEP), DeepSeek-V3 report (arXiv:2412.19437), section 3.2.2.
"""

import numpy as np

from sim.cluster import Cluster
from sim.collectives.stage import Stage, flows
from sim.program import Spread


def expert_stage(cluster: Cluster, groups: np.ndarray, spread: Spread) -> Stage:
    """Flows for one byte of the mean member's items, every copy counted; levels: 0 inside a domain, 1 between.

    ``groups`` (num_groups, n) devices. Groups may lie on the domains in different ways.
    """
    parts = [_one(np.asarray(cluster.domain)[group], group, spread) for group in groups]
    inside, between = (
        [np.concatenate([part[level][i] for part in parts]) for i in range(3)] for level in (0, 1)
    )
    made = flows((inside[0], inside[1], inside[2], 0), (between[0], between[1], between[2], 1))
    return Stage(
        name="ep",
        rule="ep",
        steps=(1.0, 1.0) if len(between[0]) else (1.0,),
        **made,
    )


_Flows = tuple[np.ndarray, np.ndarray, np.ndarray]


def _one(domain: np.ndarray, group: np.ndarray, spread: Spread) -> tuple[_Flows, _Flows]:
    """Flows of one group inside its domains and between them."""
    n = len(group)
    share = np.asarray(spread.shares) if spread.shares else np.full(n, 1.0 / n)
    names, which = np.unique(domain, return_inverse=True)
    sizes = np.bincount(which)
    place = np.empty(n, dtype=np.int64)
    members = [np.flatnonzero(which == d) for d in range(len(names))]
    for own in members:
        place[own] = np.arange(len(own))
    f = max(spread.fanout, 1)
    most = np.bincount(which, share)
    kept = np.clip(max(spread.limit * len(names), 1.0) * most, 1e-12, 1.0)
    to_domain = kept * (1.0 - (1.0 - np.minimum(most / kept, 1.0)) ** f) / f
    to_member = kept[which] * (1.0 - (1.0 - np.minimum(share / kept[which], 1.0)) ** f) / f
    # between: member i to its rail in every other domain
    i = np.repeat(np.arange(n), len(names))
    d = np.tile(np.arange(len(names)), n)
    far = which[i] != d
    i, d = i[far], d[far]
    rail = np.array(
        [members[e][place[s] % sizes[e]] for s, e in zip(i, d, strict=True)], dtype=np.int64
    )
    # inside: a member passes on what came for others here, from everybody on its rail
    a = np.concatenate([np.repeat(own, len(own)) for own in members])
    b = np.concatenate([np.tile(own, len(own)) for own in members])
    senders = np.bincount(rail, minlength=n) + 1.0
    between = (group[i], group[rail], to_domain[d])
    inside = (group[a], group[b], senders[a] * to_member[b])
    if spread.back:
        between, inside = (between[1], between[0], between[2]), (inside[1], inside[0], inside[2])
    return inside, between
