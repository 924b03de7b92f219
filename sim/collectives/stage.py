"""Stage: what one step of an algorithm moves, as flows between devices; Block: groups of equal layout."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from sim.collectives.transfer import Round


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Groups of equal layout: ``members`` (num_groups, n) devices, sorted by scale-up domain.

    ``sizes`` are the members in each domain, in order; ``mesh``: every pair inside a domain has a link of its own;
    ``inner``: the parts inside the domains as a block of their own, where those are equal; ``shape``: extent of each
    torus axis when a group is a box of a torus, and ``wraps`` which of them close.
    """

    members: np.ndarray
    sizes: tuple[int, ...]
    mesh: bool = False
    inner: "Block | None" = None
    shape: tuple[int, ...] = ()
    wraps: tuple[bool, ...] = ()
    switch_reduces: bool = False
    fabric_reduces: bool = False
    min_nvls: int = 2

    @property
    def n(self) -> int:
        """Members of a group."""
        return int(self.members.shape[1])

    @property
    def num_domains(self) -> int:
        """Domains a group spans (k)."""
        return len(self.sizes)

    @property
    def even(self) -> bool:
        """Whether every domain holds the same number of members."""
        return len(set(self.sizes)) == 1

    @property
    def grid(self) -> np.ndarray:
        """Members as (num_groups, domains, members in a domain); needs `even`."""
        return self.members.reshape(len(self.members), self.num_domains, self.sizes[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """Flows of one phase: ``load`` bytes of each flow for one byte of the collective.

    ``level`` sorts the flows by the kind of hop they are; ``steps[l]`` hops of level l follow one another, so the
    latency is the sum over levels of steps times the slowest hop. ``rule`` names the constants that apply. ``turn``
    (num_flows,): flows of different turns follow one another (empty: all share the links).
    """

    name: str
    rule: str
    src: np.ndarray
    dst: np.ndarray
    load: np.ndarray
    level: np.ndarray
    steps: tuple[float, ...]
    channels: float = 1.0
    turn: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


StageBuilder = Callable[[str, Block], "tuple[Stage, ...] | str"]
"""Stages of a collective kind on a block, or the reason it cannot run."""

RoundsBuilder = Callable[..., list[Round]]


@dataclass(frozen=True, slots=True, eq=False)
class Algorithm:
    """One algorithm: the kinds it does, its flows on a block, its rounds for n members (domains of ``sizes``).

    ``alike``: every round of a stage carries the same part of each of its flows (a ring's chunks, the pieces that a
    tree pipelines); else the rounds differ and follow one another.
    """

    name: str
    kinds: frozenset[str]
    stages: StageBuilder
    rounds: RoundsBuilder
    alike: bool = True


class Flows(TypedDict):
    """The arrays of a `Stage`."""

    src: np.ndarray
    dst: np.ndarray
    load: np.ndarray
    level: np.ndarray


def flows(*parts: tuple[np.ndarray, np.ndarray, float | np.ndarray, int]) -> Flows:
    """Join parts (src, dst, bytes for one byte, level) into the arrays of a `Stage`; self flows drop out."""
    src = np.concatenate([np.ravel(p[0]) for p in parts])
    dst = np.concatenate([np.ravel(p[1]) for p in parts])
    load = np.concatenate([np.ravel(np.broadcast_to(p[2], np.shape(p[0]))) for p in parts])
    level = np.concatenate([np.full(np.size(p[0]), p[3]) for p in parts])
    keep = src != dst
    return {"src": src[keep], "dst": dst[keep], "load": load[keep], "level": level[keep]}
