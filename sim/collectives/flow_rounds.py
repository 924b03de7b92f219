"""Rounds of an algorithm as flows between devices, for replays that play every transfer."""

from typing import NamedTuple

import numpy as np

from sim.cluster import Cluster
from sim.collectives import ring
from sim.collectives.layout import blocks
from sim.collectives.library import ALGORITHMS
from sim.collectives.phase import CollectivePlan, Phase
from sim.collectives.stage import Algorithm, Block
from sim.collectives.transfer import Round
from sim.errors import CollectiveError


class FlowRound(NamedTuple):
    """Transfers that start together: devices, bytes of each for one byte of the collective, and how often in a row."""

    src: np.ndarray
    dst: np.ndarray
    share: np.ndarray
    repeat: int = 1


def flow_rounds(
    cluster: Cluster, groups: np.ndarray, kind: str, algorithm: Algorithm
) -> list[FlowRound]:
    """Return the rounds of ``algorithm`` on all ``groups`` (num_groups, n) at once.

    A ring's rounds are alike and come as one with ``repeat``. `CollectiveError` where the groups are not laid out alike
    or the algorithm cannot run on them.
    """
    parts = blocks(cluster, np.atleast_2d(groups))
    if len(parts) > 1:
        raise CollectiveError(
            "rounds need every group laid out alike; play the groups of each layout apart"
        )
    block = parts[0]
    if isinstance(why := algorithm.stages(kind, block), str):
        raise CollectiveError(f"{algorithm.name} {why}; choose another algorithm")
    if algorithm.name == "ring":
        return [_ring_round(kind, block)]
    return [_flows(turn, block) for turn in algorithm.rounds(kind, block.n, block.sizes)]


def _ring_round(kind: str, block: Block) -> FlowRound:
    """Every hop of the rings carries one chunk a step."""
    made, steps = ring.stage(kind, block), ring.num_steps(kind, block.n)
    return FlowRound(made.src, made.dst, made.load / steps, steps)


def phase_rounds(
    cluster: Cluster, groups: np.ndarray | None, plan: CollectivePlan
) -> list[list[FlowRound]]:
    """Return the rounds of every phase of a plan, on all ``groups`` (num_groups, n) at once (None: it is a message).

    `CollectiveError` where the algorithm's rounds differ and the groups are not laid out alike.
    """
    algorithm = ALGORITHMS.get(plan.algorithm)
    if algorithm is None or algorithm.alike or groups is None:
        return [_alike_rounds(phase) for phase in plan.phases]
    return [flow_rounds(cluster, groups, plan.kind, algorithm)] if plan.phases else []


def _alike_rounds(phase: Phase) -> list[FlowRound]:
    """The stage's flows in as many equal parts as it has steps."""
    stage = phase.stage
    if stage is None:
        return []
    steps = max(1, round(sum(stage.steps)))
    return [FlowRound(stage.src, stage.dst, stage.load / steps, steps)]


def _flows(turn: Round, block: Block) -> FlowRound:
    """Transfers between the same two members are one flow."""
    n = block.n
    code = np.array([t.src * n + t.dst for t in turn])
    pairs, where = np.unique(code, return_inverse=True)
    share = np.bincount(where, [t.size for t in turn])
    src, dst = block.members[:, pairs // n], block.members[:, pairs % n]
    return FlowRound(src.ravel(), dst.ravel(), np.tile(share, len(block.members)))
