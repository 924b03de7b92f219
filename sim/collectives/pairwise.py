"""Pairwise all-to-all: every member sends each peer its part, n-1 shifts that overlap on a switch.

Time (n-1)a' + (n-1)/n S/B on a non-blocking switch.
"""

from dataclasses import replace

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer

MOST_FLOWS = 100_000
"""Above this many flows the far shifts are a spread subset, each counted for those it stands for."""


def _shifts(n: int, near: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Shifts to route and how many each stands for: all of ``near`` either way, the others spread."""
    every = np.arange(1, n)
    if n - 1 <= most:
        return every, np.ones(n - 1)
    close = (every < near) | (every > n - near)
    far = every[~close]
    kept = far[np.unique(np.linspace(0, len(far) - 1, min(len(far), most)).astype(int))]
    stands = np.full(len(kept), len(far) / len(kept))
    return np.concatenate([every[close], kept]), np.concatenate([np.ones(close.sum()), stands])


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage."""
    return (stage(block, "pairwise"),)


def expert_stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """The same flows, by an expert-parallel kernel: one message a peer, posted by the device, no steps."""
    made = stage(block, "ep")
    return (replace(made, name="ep", steps=tuple(float(s > 0) for s in made.steps)),)


def stage(block: Block, rule: str) -> Stage:
    """Flows of all pairs; levels: 0 inside a domain, 1 between domains."""
    n, members = block.n, block.members
    domain = np.repeat(np.arange(block.num_domains), block.sizes)
    most = max(24, MOST_FLOWS // members.size)
    shifts, stands = _shifts(n, min(max(block.sizes), most // 4), most)
    i = np.tile(np.arange(n), len(shifts))
    j = (i + np.repeat(shifts, n)) % n
    each = np.repeat(stands, n) / n
    far = domain[i] != domain[j]
    parts = [
        (members[:, i[rows]], members[:, j[rows]], np.tile(each[rows], (len(members), 1)), level)
        for level, rows in ((0, ~far), (1, far))
        if rows.any()
    ]
    outside = float(each[far].sum())
    steps = (n - 1 - outside, outside) if outside else (float(n - 1),)
    return Stage(name="pairwise", rule=rule, steps=steps, **flows(*parts))


def uneven(block: Block, matrix: np.ndarray) -> Stage:
    """Flows of an all-to-all in which member i sends ``matrix[..., i, j]`` bytes to j, for one byte of the mean row.

    ``matrix`` (n, n), the same in every group, or (num_groups, n, n), in the order of ``block.members``.
    """
    n, members = block.n, block.members
    bytes_ = np.broadcast_to(np.asarray(matrix, dtype=float), (len(members), n, n))
    sent = np.where(np.eye(n, dtype=bool), 0.0, bytes_)
    unit = float(bytes_.sum(axis=2).mean())
    group, i, j = np.nonzero(sent)
    domain = np.repeat(np.arange(block.num_domains), block.sizes)
    level = (domain[i] != domain[j]).astype(int)
    peers = (sent > 0).sum(axis=2).max()
    return Stage(
        name="pairwise",
        rule="pairwise",
        src=members[group, i],
        dst=members[group, j],
        load=sent[group, i, j] / unit,
        level=level,
        steps=(0.0, float(peers)) if level.any() else (float(peers),),
    )


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """Shift s sends member i's part to member i + s."""
    size = 1 / n
    return [
        tuple(Transfer(i, (i + s) % n, i * n + (i + s) % n, size) for i in range(n))
        for s in range(1, n)
    ]


PAIRWISE = Algorithm("pairwise", frozenset({"all_to_all"}), stages, rounds)
EXPERT = Algorithm("ep", frozenset({"all_to_all"}), expert_stages, rounds)
