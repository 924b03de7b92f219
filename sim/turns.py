"""Turns: the rounds of collectives and messages, ready to be played transfer by transfer (the `rounds` fidelity).

What is measured of a collective stays: what its library takes to start, what a hop takes, what share of a link an
algorithm reaches. A phase starts up, then its rounds follow one another; each takes its part of the hops' latency, then
all its flows share the links. As one activity or in rounds, an idle symmetric network gives the same time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim.cluster import Cluster
from sim.collectives.flow_rounds import FlowRound, phase_rounds
from sim.collectives.phase import CollectivePlan, Phase
from sim.network.fair_share import Use
from sim.network.rounds import Batch, Pattern, batches


@dataclass(frozen=True, slots=True)
class Transfers:
    """Equal transfers of a round that share one fate: bytes of each, most bytes/s, weight, resources."""

    nbytes: float
    ceiling: float
    weight: float
    uses: tuple[Use, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A round, ``repeat`` times in a row: seconds until its transfers start, and these."""

    latency: float
    repeat: int
    transfers: tuple[Transfers, ...]


class Turns(NamedTuple):
    """Turns of every phase of every plan, capacities of the resources, and the resource of each kept link."""

    of: list[tuple[tuple[Turn, ...], ...]]
    capacity: list[float]
    resource_of_link: Mapping[int, int]


class _Free(NamedTuple):
    """Resources that will change, the share of them a phase reaches, and how much faster it is if they don't limit."""

    resources: frozenset[int]
    efficiency: float
    rise: float


Job = tuple[CollectivePlan, np.ndarray | None]
"""A plan, and the (num_groups, n) devices it runs on (None: a message)."""


def turns(cluster: Cluster, jobs: Sequence[Job], brief: float, keep: Sequence[int] = ()) -> Turns:
    """Lay out the rounds of every job. A phase shorter than ``brief`` seconds uses no link.

    ``keep``: links whose bandwidth will change. `CollectiveError` where an algorithm has no rounds on these groups.
    """
    known: dict[object, list[list[FlowRound]]] = {}
    where: dict[int, int] = {}
    patterns: list[Pattern] = []
    laid: list[list[list[FlowRound]]] = []
    for plan, groups in jobs:
        key = (plan.kind, plan.algorithm, id(groups), *(id(phase.stage) for phase in plan.phases))
        if key not in known:
            known[key] = phase_rounds(cluster, groups, plan)
        laid.append(known[key])
        for phase, rounds in zip(plan.phases, known[key], strict=True):
            for r in () if _brief(phase, brief) else rounds:
                if id(r) not in where:
                    where[id(r)] = len(patterns)
                    patterns.append(Pattern(r.src, r.dst, r.share))
    made = batches(cluster, patterns, keep)
    found = [
        tuple(
            _phase_turns(
                phase,
                own,
                [made.of[where[id(r)]] for r in own],
                _rates(cluster, phase, own, groups),
                _free(cluster, phase, made.resource_of_link),
            )
            if not _brief(phase, brief)
            else (Turn(phase.latency + phase.nbytes / _rate(phase), 1, ()),)
            for phase, own in zip(plan.phases, rounds, strict=True)
        )
        for (plan, groups), rounds in zip(jobs, laid, strict=True)
    ]
    return Turns(found, made.capacity, made.resource_of_link)


def _brief(phase: Phase, seconds: float) -> bool:
    return phase.stage is None or phase.nbytes <= _rate(phase) * seconds


def _rate(phase: Phase) -> float:
    return phase.own or phase.ceiling


def _phase_turns(
    phase: Phase, rounds: Sequence[FlowRound], parts: Sequence[tuple[Batch, ...]], rates: Sequence[float], free: _Free
) -> tuple[Turn, ...]:  # fmt: skip
    """Start-up, then every round with its part of the hops; ``rates``: bytes/s of the collective in each."""
    hop = phase.hops / sum(r.repeat for r in rounds)
    result = [Turn(phase.latency - phase.hops, 1, ())]
    for r, own, rate in zip(rounds, parts, rates, strict=True):
        unit = phase.weight * r.repeat if len(rounds) == 1 else 1.0 / float(r.share.mean())
        moved = tuple(
            Transfers(
                nbytes=batch.load * phase.nbytes,
                ceiling=rate * batch.load * free.rise,
                weight=unit * batch.load,
                uses=tuple(
                    (u, x / free.efficiency if u in free.resources else x) for u, x in batch.uses
                ),
                count=batch.count,
            )
            for batch in own
        )
        result.append(Turn(hop, r.repeat, moved))
    return tuple(result)


def _rates(
    cluster: Cluster, phase: Phase, rounds: Sequence[FlowRound], groups: np.ndarray | None
) -> list[float]:
    """Bytes/s of the collective for each round: alike ones at the phase's own rate, others as a group's links allow.

    A round that differs reaches that share of its most loaded link which makes all of them take the phase's time.
    """
    if len(rounds) == 1 or groups is None:
        return [_rate(phase) * r.repeat for r in rounds]
    one = np.zeros(cluster.num_devices, dtype=bool)
    one[np.atleast_2d(groups)[0]] = True
    loads = [_loads(cluster, r, one) for r in rounds]
    capacity = cluster.link_capacity
    taken = [float((load / capacity).max()) for load in loads]
    return [_rate(phase) * sum(taken) / each for each in taken]


def _loads(cluster: Cluster, r: FlowRound, member: np.ndarray) -> np.ndarray:
    own = member[r.src]
    routes = cluster.routes(r.src[own], r.dst[own])
    carried = routes.share * r.share[own][routes.pair]
    return np.bincount(routes.link, carried, minlength=cluster.num_links)


def _free(cluster: Cluster, phase: Phase, resource_of_link: Mapping[int, int]) -> _Free:
    """How far changing links limit a phase now."""
    changes = np.isin(phase.links, list(resource_of_link))
    if not changes.any():
        return _Free(frozenset(), 1.0, 1.0)
    limits = cluster.link_capacity[phase.links] / phase.loads
    efficiency = phase.ceiling / float(limits.min())
    rate = efficiency * float(limits[~changes].min(initial=np.inf))
    return _Free(frozenset(resource_of_link.values()), efficiency, rate / _rate(phase))
