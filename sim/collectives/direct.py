"""Direct: every pair of a fully meshed host exchanges at once, each over the link that joins it.

One step reduces a share of the buffer at each member, one more hands it round; bytes as a ring over every link at once.
"""

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer

KINDS = frozenset({"all_reduce", "all_gather", "reduce_scatter"})


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage; the group must sit in one fully meshed host."""
    n, members = block.n, block.members
    if not block.mesh or block.num_domains > 1:
        return "needs a host in which every pair of devices has a link of its own"
    turns = 2 if kind == "all_reduce" else 1
    i, j = np.nonzero(~np.eye(n, dtype=bool))
    moved = flows((members[:, i], members[:, j], turns / n, 0))
    return (Stage(name="direct", rule="direct", steps=(turns,), channels=n - 1, **moved),)


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """One round of all pairs (two for all-reduce)."""
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    to_owner = tuple(Transfer(i, j, j, 1 / n, add=True) for i, j in pairs)
    to_all = tuple(Transfer(i, j, i, 1 / n) for i, j in pairs)
    table: dict[str, list[Round]] = {
        "all_reduce": [to_owner, to_all],
        "reduce_scatter": [to_owner],
        "all_gather": [to_all],
    }
    return table[kind]


DIRECT = Algorithm("direct", KINDS, stages, rounds)
