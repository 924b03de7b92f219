"""Star: the root sends every member its part (scatter), or receives it (gather), all at once.

Time a + (n-1)/n S/B: the root's links carry everything.
"""

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer

KINDS = frozenset({"gather", "scatter"})


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage; levels: 0 inside a domain, 1 between domains."""
    n, members = block.n, block.members
    root = np.repeat(members[:, :1], n - 1, axis=1)
    ends = (root, members[:, 1:]) if kind == "scatter" else (members[:, 1:], root)
    level = int(block.num_domains > 1)
    moved = flows((*ends, 1 / n, level))
    return (Stage(name="star", rule="star", steps=(0.0, 1.0) if level else (1.0,), **moved),)


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """One round."""
    if kind == "scatter":
        return [tuple(Transfer(0, i, i, 1 / n) for i in range(1, n))]
    return [tuple(Transfer(i, 0, i, 1 / n) for i in range(1, n))]


STAR = Algorithm("star", KINDS, stages, rounds)
