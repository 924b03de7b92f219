"""Hierarchical all-to-all: first inside the domain to the member on the receiver's rail, then along the rail.

Bytes through a NIC stay S(k-1)/k, but a member talks to k-1 far peers instead of (k-1)g.
"""

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer
from sim.errors import CollectiveError


def refused(sizes: tuple[int, ...]) -> str:
    """Why these domains cannot: empty if they can."""
    if len(set(sizes)) > 1:
        return f"needs equal subgroups, got {list(sizes)} members in the domains"
    if len(sizes) == 1 or sizes[0] == 1:
        return f"needs several domains of several members, got {len(sizes)} of {sizes[0]}"
    return ""


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """Two stages: inside the domains, then between them."""
    if why := refused(block.sizes):
        return why
    grid, k, g = block.grid, block.num_domains, block.sizes[0]
    i, j = np.nonzero(~np.eye(g, dtype=bool))
    inside = flows((grid[:, :, i], grid[:, :, j], 1 / g, 0))
    i, j = np.nonzero(~np.eye(k, dtype=bool))
    between = flows((grid[:, i], grid[:, j], 1 / k, 1))
    return (
        Stage(name="intra all_to_all", rule="pairwise", steps=(g - 1.0,), **inside),
        Stage(name="inter all_to_all", rule="pairwise", steps=(0.0, k - 1.0), **between),
    )


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """One round inside, one between."""
    if why := refused(sizes):
        raise CollectiveError(f"hierarchical_a2a {why}")
    k, g, size = len(sizes), sizes[0], 1 / n
    inside, between = [], []
    for h in range(k):
        for a in range(g):
            for to in range(n):
                b, i = to % g, h * g + a
                if b != a:
                    inside.append(Transfer(i, h * g + b, i * n + to, size))
                if to // g != h:
                    between.append(Transfer(h * g + b, to, i * n + to, size))
    return [tuple(inside), tuple(between)]


HIERARCHICAL_A2A = Algorithm("hierarchical_a2a", frozenset({"all_to_all"}), stages, rounds)
