"""Pairwise all-to-all: every member sends each peer its part, n-1 shifts that overlap on a switch.

Time (n-1)a' + (n-1)/n S/B on a non-blocking switch.
"""

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer

MOST_SHIFTS = 512
"""Groups larger than this route a spread subset of the n-1 shifts, each counted for those it stands for."""


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage; levels: 0 inside a domain, 1 between domains."""
    n, members = block.n, block.members
    domain = np.repeat(np.arange(block.num_domains), block.sizes)
    shifts = np.arange(1, n)
    if n - 1 > MOST_SHIFTS:
        shifts = np.unique(np.linspace(1, n - 1, MOST_SHIFTS).astype(int))
    i = np.tile(np.arange(n), len(shifts))
    j = (i + np.repeat(shifts, n)) % n
    each = (n - 1) / len(shifts) / n
    level = (domain[i] != domain[j]).astype(int)
    parts = [
        (members[:, i[level == l]], members[:, j[level == l]], each, l)
        for l in (0, 1)
        if (level == l).any()
    ]
    outside = float(np.mean(level)) * (n - 1)
    steps = (n - 1 - outside, outside) if outside else (float(n - 1),)
    return (Stage(name="pairwise", rule="pairwise", steps=steps, **flows(*parts)),)


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """Shift s sends member i's part to member i + s."""
    size = 1 / n
    return [
        tuple(Transfer(i, (i + s) % n, i * n + (i + s) % n, size) for i in range(n))
        for s in range(1, n)
    ]


PAIRWISE = Algorithm("pairwise", frozenset({"all_to_all"}), stages, rounds)
