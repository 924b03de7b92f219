"""NVLS tree, and SHARP: switches reduce inside the domain; a tree, or the fabric's own switches, between domains.

Each member reduces its 1/g of the buffer through NVSwitch, sends that share over its NIC, and stores the result to its
domain; all pipelined as one activity (NVIDIA/nccl NVLSTree, CollNet).
"""

import math

import numpy as np

from sim.collectives import nvls
from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer
from sim.collectives.tree import double_parents

KINDS = frozenset({"all_reduce"})


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage; levels: 0 through NVSwitch, 1 between domains."""
    if why := nvls.refused(block):
        return why
    if block.num_domains == 1 or not block.even:
        return f"needs several equal domains, got {list(block.sizes)} members in them"
    g, grid = block.sizes[0], block.grid
    parts = [(grid, np.roll(grid, -1, axis=2), (g - 1) / g, 0)]
    for parent in double_parents(block.num_domains):
        low = np.flatnonzero(parent >= 0)
        for a, b in ((low, parent[low]), (parent[low], low)):
            parts.append((grid[:, a], grid[:, b], 1 / (2 * g), 1))
    steps = (2.0, 2 * math.log2(block.num_domains))
    return (Stage(name="nvls-tree", rule="nvls_tree", steps=steps, **flows(*parts)),)


def sharp_stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage: 1/g of the buffer once up and once down each NIC."""
    if not block.fabric_reduces:
        return "needs a fabric whose switches reduce (InfiniBand with SHARP)"
    if block.num_domains == 1 or not block.even:
        return f"needs several equal domains, got {list(block.sizes)} members in them"
    g, grid = block.sizes[0], block.grid
    inside = (1 if block.switch_reduces else 2) * (g - 1) / g
    parts = [
        (grid, np.roll(grid, -1, axis=2), inside, 0),
        (grid, np.roll(grid, -1, axis=1), 1 / g, 1),
    ]
    steps = (2.0 if block.switch_reduces else 2.0 * (g - 1), 2.0)
    return (Stage(name="sharp", rule="sharp", steps=steps, **flows(*parts)),)


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """Sum inside each domain, sum at domain 0 and back (the trees' or switches' work), store inside each domain."""
    sizes = sizes or (n,)
    g, k = min(sizes), len(sizes)
    first = [sum(sizes[:h]) for h in range(k)]
    per = -(-n // g)
    chunks = [(c, c // per) for c in range(g * per)]
    size = 1 / len(chunks)

    def inside(c: int, a: int, *, to_all: bool) -> list[Transfer]:
        owners = [
            (f + a, f + b) for f, s in zip(first, sizes, strict=True) for b in range(s) if b != a
        ]
        return [
            Transfer(o, m, c, size) if to_all else Transfer(m, o, c, size, add=True)
            for o, m in owners
        ]

    return [
        tuple(t for c, a in chunks for t in inside(c, a, to_all=False)),
        *(
            tuple(Transfer(first[h] + a, a, c, size, add=True) for c, a in chunks)
            for h in range(1, k)
        ),
        tuple(Transfer(a, first[h] + a, c, size) for c, a in chunks for h in range(1, k)),
        tuple(t for c, a in chunks for t in inside(c, a, to_all=True)),
    ]


NVLS_TREE = Algorithm("nvls_tree", KINDS, stages, rounds)
SHARP = Algorithm("sharp", KINDS, sharp_stages, rounds)
