"""Bruck all-to-all: in turn b every part still 2^b short moves 2^b members on; ceil(log2 n) turns.

log2(n) a + (S/2) log2(n)/B (Bruck et al., 1997): few steps, more bytes.
"""

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage; levels: 0 inside a domain, 1 between domains."""
    n, members = block.n, block.members
    domain = np.repeat(np.arange(block.num_domains), block.sizes)
    parts, turn, hops = [], [], [0.0, 0.0]
    for b in range((n - 1).bit_length()):
        there = (np.arange(n) + (1 << b)) % n
        share = float(np.mean(np.arange(n) >> b & 1))
        far = domain != domain[there]
        hops[int(far.any())] += 1
        for level in (0, 1):
            rows = np.flatnonzero(far == bool(level))
            if len(rows):
                parts.append((members[:, rows], members[:, there[rows]], share, level))
                turn.append(np.full(len(members) * len(rows), b))
    order = np.concatenate(turn)
    return (Stage(name="bruck", rule="bruck", steps=tuple(hops), turn=order, **flows(*parts)),)


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """The part from i to i + d stands at i + (d mod 2^b) before turn b."""
    result = []
    for b in range((n - 1).bit_length()):
        turn = []
        for i in range(n):
            for d in range(1, n):
                if d >> b & 1:
                    here = (i + d % (1 << b)) % n
                    turn.append(Transfer(here, (here + (1 << b)) % n, i * n + (i + d) % n, 1 / n))
        result.append(tuple(turn))
    return result


BRUCK = Algorithm("bruck", frozenset({"all_to_all"}), stages, rounds, alike=False)
