"""Cost of a stage on the graph: loads of links, the rate they allow, hop latencies, and its regimes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sim.cluster import Cluster, LinkKind
from sim.collectives.phase import Phase
from sim.collectives.regime import Regime, constant, regimes
from sim.collectives.stage import Stage
from sim.errors import CollectiveError


@dataclass(frozen=True, slots=True, eq=False)
class PricedStage:
    """A stage with its loads and regimes: what is left is to scale it by a size."""

    name: str
    regimes: tuple[Regime, ...]
    links: np.ndarray
    loads: np.ndarray
    bottleneck: int
    weight: float
    sm_share: float
    memory_share: float
    stage: Stage

    def seconds(self, nbytes: float) -> float:
        """Time of one group alone under its best protocol (other groups change no choice)."""
        return min([regime.alone(nbytes) for regime in self.regimes])

    def phase(self, nbytes: float) -> tuple[Phase, str]:
        """The stage at a size, under its fastest protocol, and the name of that."""
        best, time = self.regimes[0], self.regimes[0].alone(nbytes)
        for regime in self.regimes[1:]:
            if (other := regime.alone(nbytes)) < time:
                best, time = regime, other
        phase = Phase(
            name=self.name,
            latency=best.latency(nbytes),
            nbytes=nbytes,
            ceiling=best.ceiling,
            links=self.links,
            loads=self.loads,
            weight=self.weight,
            sm_share=self.sm_share,
            memory_share=self.memory_share,
            bottleneck=self.bottleneck,
            own=best.rate,
            hops=best.hops,
            stage=self.stage,
        )
        return phase, best.protocol


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """The most loaded link of one kind: bytes/s it allows one group, and all groups at once.

    ``flow_bytes``: mean bytes of a flow, for one byte of the collective, where one group alone is tightest.
    """

    kind: LinkKind
    own: float
    shared: float
    link: int
    flow_bytes: float


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """What the graph says of a stage, before any constant: loads, the rates they allow, hops and wire latencies.

    ``levels``: (link kind, hops, seconds a hop on the wire), the outermost last.
    """

    stage: Stage
    links: np.ndarray
    loads: np.ndarray
    bounds: tuple[Bound, ...]
    levels: tuple[tuple[LinkKind, float, float], ...]

    def regimes(self, collective: str, kinds: Mapping[str, LinkKind] | None = None) -> list[Regime]:
        """Price under every protocol; ``kinds`` replaces link kinds by name (calibration)."""
        new = kinds or {}
        levels = [(new.get(kind.name, kind), hops, wire) for kind, hops, wire in self.levels]
        ceilings = [(new.get(bound.kind.name, bound.kind), bound.own) for bound in self.bounds]
        shared = min(bound.shared for bound in self.bounds)
        return regimes(self.stage.rule, collective, levels, ceilings, shared)


def footprint(cluster: Cluster, stage: Stage, owner: np.ndarray) -> Footprint:
    """Route the flows of a stage and sum the loads of links; ``owner`` (num_devices,) the group of each sender."""
    pair, link, share = cluster.router(stage.src, stage.dst)
    _check_reached(stage, pair)
    carried = share * stage.load[pair]
    loads = np.bincount(link, carried, minlength=cluster.num_links)
    own = _own_loads(owner[stage.src[pair]], link, carried, loads)
    squares = np.bincount(link, carried**2, minlength=cluster.num_links)
    used = np.flatnonzero(loads)
    capacity = cluster.link_capacity
    bounds = []
    for i in _distinct(cluster.links.kind[used]):
        rows = used[cluster.links.kind[used] == i]
        worst = rows[np.argmin(capacity[rows] / loads[rows])]
        tight = rows[np.argmin(capacity[rows] / own[rows])]
        alone = float(capacity[tight] / own[tight])
        together = float(capacity[worst] / loads[worst])
        flow = float(squares[tight] / loads[tight])
        bounds.append(Bound(cluster.link_kinds[i], alone, together, int(worst), flow))
    if len(stage.turn):
        bounds = _in_turns(cluster, stage, pair, link, carried, owner, bounds)
    wire = np.bincount(pair, share * cluster.links.latency[link], minlength=len(stage.src))
    levels = []
    for level, hops in enumerate(stage.steps):
        rows = stage.level == level
        if rows.any():
            kind = _slowest_kind(cluster, link[rows[pair]])
            levels.append((kind, hops, float(wire[rows].max())))
    return Footprint(stage, used, loads[used], tuple(bounds), tuple(levels))


def _in_turns(
    cluster: Cluster,
    stage: Stage,
    pair: np.ndarray,
    link: np.ndarray,
    carried: np.ndarray,
    owner: np.ndarray,
    bounds: list[Bound],
) -> list[Bound]:
    """Lower the bounds of flows that follow one another: each turn takes what its own most loaded link does."""
    capacity = cluster.link_capacity
    own = together = 0.0
    for number in np.unique(stage.turn):
        rows = stage.turn[pair] == number
        loads = np.bincount(link[rows], carried[rows], minlength=cluster.num_links)
        mine = _own_loads(owner[stage.src[pair[rows]]], link[rows], carried[rows], loads)
        own += float((mine / capacity).max())
        together += float((loads / capacity).max())
    slower = 1.0 / own / min(bound.own for bound in bounds)
    shared = 1.0 / together / min(bound.shared for bound in bounds)
    return [replace(b, own=b.own * slower, shared=b.shared * shared) for b in bounds]


def _own_loads(
    group: np.ndarray, link: np.ndarray, carried: np.ndarray, loads: np.ndarray
) -> np.ndarray:
    """The largest load one group puts on each link."""
    if len(group) and (group == group[0]).all():
        return loads
    size = len(loads)
    last = np.zeros(size, dtype=group.dtype)
    last[link] = group
    several = np.zeros(size, dtype=bool)
    several[link[last[link] != group]] = True
    own = np.where(several, 0.0, loads)
    rows = several[link]
    key, where = np.unique(group[rows] * size + link[rows], return_inverse=True)
    np.maximum.at(own, key % size, np.bincount(where, carried[rows]))
    return own


def _distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct ones of small whole numbers, sorted."""
    return np.flatnonzero(np.bincount(values))


def price(cluster: Cluster, collective: str, stage: Stage, owner: np.ndarray) -> PricedStage:
    """Price a stage under every protocol."""
    graph = footprint(cluster, stage, owner)
    options = graph.regimes(collective)

    def alone(bound: Bound) -> float:
        return bound.own * constant(bound.kind, "efficiency", stage.rule, collective, "Simple", 1.0)

    tightest = min(graph.bounds, key=lambda bound: min(alone(bound), bound.shared))
    return PricedStage(
        name=stage.name,
        regimes=tuple(options),
        links=graph.links,
        loads=graph.loads,
        bottleneck=tightest.link,
        weight=1.0 / min(graph.bounds, key=alone).flow_bytes,
        sm_share=sm_share(cluster, stage, graph),
        memory_share=memory_share(cluster, graph, max(option.rate for option in options)),
        stage=stage,
    )


def sm_share(cluster: Cluster, stage: Stage, graph: Footprint) -> float:
    """Share of the device's compute units the kernels hold: ``units`` of the link kinds it drives, the most of any.

    None where the links have no such constant: TPU and UB links are driven by copy engines.
    """
    taken = max(constant(kind, "units", stage.rule, "", "Simple") for kind, _, _ in graph.levels)
    units = min((d.compute_units for d in cluster.device_kinds), default=0)
    return min(1.0, taken / units) if units else 0.0


def memory_share(cluster: Cluster, graph: Footprint, rate: float) -> float:
    """Share of the device's memory bandwidth taken at full rate: every byte sent is read once and written once."""
    src = cluster.links.src[graph.links]
    sent = np.bincount(src[src < cluster.num_devices], graph.loads[src < cluster.num_devices])
    bandwidth = min(device.memory_bandwidth for device in cluster.device_kinds)
    return min(1.0, 2.0 * float(sent.max(initial=0.0)) * rate / bandwidth)


def _slowest_kind(cluster: Cluster, link: np.ndarray) -> LinkKind:
    """The link kind whose constants a hop takes: one that has constants of collectives, else the slowest."""
    kinds: list[LinkKind] = [cluster.link_kinds[i] for i in _distinct(cluster.links.kind[link])]
    return max(kinds, key=lambda k: ("base" in k.constants, k.latency))


def _check_reached(stage: Stage, pair: np.ndarray) -> None:
    reached = np.zeros(len(stage.src), dtype=bool)
    reached[pair] = True
    if not reached.all():
        lost = int(np.argmin(reached))
        raise CollectiveError(
            f"devices {int(stage.src[lost])} and {int(stage.dst[lost])} are not connected; "
            "leave one out of the group, or mend the link between them"
        )
