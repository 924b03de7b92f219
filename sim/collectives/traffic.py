"""Traffic: who sends to whom in the groups of an axis, whatever their collectives turn out to be.

What folding compares groups by: the flows of every algorithm the library may choose for the collectives used. Two
groups whose flows cross alike links alike cost the same.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from sim.cluster import Cluster
from sim.collectives.layout import blocks
from sim.collectives.stage import Block, Stage

GOLDEN = 0.6180339887498949
MOST_FLOWS = 2**18
"""Flows of an all-to-all taken one by one; beyond, those to the members 1, 2, 4, ... places on stand for all."""


class Traffic(NamedTuple):
    """Flows between devices: ``src``, ``dst``, ``group`` (row of the groups), ``weight`` (tells loads apart)."""

    src: np.ndarray
    dst: np.ndarray
    group: np.ndarray
    weight: np.ndarray


def traffic(cluster: Cluster, groups: np.ndarray, uses: Iterable[tuple[str, str]]) -> Traffic:
    """Return the flows of ``groups`` (num_groups, n) of devices under ``uses``: (kind, algorithm) pairs."""
    size = cluster.num_devices
    owner = np.full(size, -1)
    owner[groups] = np.arange(len(groups))[:, None]
    codes, weights = [], []
    for number, (src, dst, load) in enumerate(_flows(cluster, groups, sorted(set(uses)))):
        codes.append(src * size + dst)
        weights.append(load * (1.0 + (number + 1) * GOLDEN % 1.0))
    if not codes:
        empty = np.zeros(0, np.int64)
        return Traffic(empty, empty, empty, np.zeros(0))
    code, where = np.unique(np.concatenate(codes), return_inverse=True)
    weight = np.bincount(where, np.concatenate(weights))
    return Traffic(code // size, code % size, owner[code // size], weight)


def _flows(
    cluster: Cluster, groups: np.ndarray, uses: list[tuple[str, str]]
) -> Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    from sim.collectives import ALGORITHMS, library_of

    parts, seen = blocks(cluster, groups), set()
    for kind, chosen in uses:
        names = library_of(cluster, groups) if chosen == "auto" else (chosen,)
        for name in names:
            algorithm = ALGORITHMS.get(name)
            if algorithm is None or kind not in algorithm.kinds or name in seen:
                continue
            seen.add(name)
            for block in parts:
                if kind == "all_to_all" and block.members.size * block.n > MOST_FLOWS:
                    yield _steps(block)
                    continue
                stages = algorithm.stages(kind, block)
                for stage in () if isinstance(stages, str) else stages:
                    yield _parts(stage)


def _parts(stage: Stage) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return stage.src, stage.dst, stage.load * (1.0 + stage.level)


def _steps(block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shifts = [2**i for i in range(block.n.bit_length()) if 2**i < block.n]
    src = np.tile(block.members.ravel(), len(shifts))
    dst = np.concatenate([np.roll(block.members, -s, axis=1).ravel() for s in shifts])
    return src, dst, np.ones(len(src))
