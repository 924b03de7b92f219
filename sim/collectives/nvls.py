"""NVLS: NVSwitches add and multicast, inside one NVLink domain.

A member pulls its share of the sum through the switch and stores it to all: the others pull S(n-1)/n from it and store
S(n-1)/n to it, half of a ring's bytes, so bus bandwidth may exceed the link's rate. That the measured bus bandwidth is
the same for 8 and 72 devices is what this count says (NVIDIA/nccl doc/PERFORMANCE and tuner; GB200 NVL72 logs).
"""

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer

KINDS = frozenset({"all_reduce"})


def refused(block: Block) -> str:
    """Why the switches of this block cannot reduce; empty if they can."""
    if not block.switch_reduces:
        return "needs NVSwitches that reduce"
    if min(block.sizes) < block.min_nvls:
        return f"needs at least {block.min_nvls} members in a domain, got {min(block.sizes)}"
    return ""


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage: up and down the switch, drawn as flows to the next member."""
    if why := refused(block):
        return why
    if block.num_domains > 1:
        return "stays inside one NVLink domain"
    n, members = block.n, block.members
    moved = flows((members, np.roll(members, -1, axis=1), (n - 1) / n, 0))
    return (Stage(name="nvls", rule="nvls", steps=(2.0,), **moved),)


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """What the switch does to the data: it sums at each owner, then stores the sum to all."""
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return [
        tuple(Transfer(i, j, j, 1 / n, add=True) for i, j in pairs),
        tuple(Transfer(i, j, i, 1 / n) for i, j in pairs),
    ]


NVLS = Algorithm("nvls", KINDS, stages, rounds)
