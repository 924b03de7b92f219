"""Halving-doubling: partners at distance 1, 2, 4, ... exchange halves, then quarters, ...; then back.

All-reduce 2 log2(n) a + 2(n-1)/n S/B, for n a power of two (Thakur, Rabenseifner & Gropp, 2005).
"""

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer
from sim.errors import CollectiveError

KINDS = frozenset({"all_reduce", "all_gather", "reduce_scatter"})


def _distances(n: int) -> list[int]:
    return [1 << s for s in range(n.bit_length() - 1)]


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage; levels: 0 partners in a domain, 1 between domains."""
    n, members = block.n, block.members
    if n & (n - 1):
        return f"needs a power of two, got {n} members"
    domain = np.repeat(np.arange(block.num_domains), block.sizes)
    turns = 2 if kind == "all_reduce" else 1
    parts, turn, hops = [], [], [0.0, 0.0]
    for number, distance in enumerate(_distances(n)):
        partner = np.arange(n) ^ distance
        far = domain != domain[partner]
        hops[int(far.any())] += turns
        for level in (0, 1):
            rows = np.flatnonzero(far == bool(level))
            if len(rows):
                load = turns / (2 * distance)
                parts.append((members[:, rows], members[:, partner[rows]], load, level))
                turn.append(np.full(len(members) * len(rows), number))
    return (
        Stage(
            name="halving-doubling",
            rule="halving_doubling",
            steps=tuple(hops),
            turn=np.concatenate(turn),
            **flows(*parts),
        ),
    )


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """One chunk a member; member i ends its halving with chunk i."""
    if n & (n - 1):
        raise CollectiveError(f"halving_doubling needs a power of two, got {n} members")
    halve = []
    for d in _distances(n):
        turn = [
            Transfer(i, i ^ d, c, 1 / n, add=True)
            for i in range(n)
            for c in range(n)
            if c % (2 * d) == (i ^ d) % (2 * d)
        ]
        halve.append(tuple(turn))
    double = [
        tuple(Transfer(t.dst, t.src, t.chunk, t.size) for t in turn) for turn in reversed(halve)
    ]
    table = {"all_reduce": halve + double, "reduce_scatter": halve, "all_gather": double}
    return table[kind]


HALVING_DOUBLING = Algorithm("halving_doubling", KINDS, stages, rounds, alike=False)
