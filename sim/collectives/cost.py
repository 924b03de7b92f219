"""Cost of a stage on the graph: loads of links, the rate they allow, hop latencies, and its regimes."""

from dataclasses import dataclass

import numpy as np

from sim.cluster import Cluster, LinkKind
from sim.collectives.phase import Phase
from sim.collectives.regime import Regime, regimes
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

    def seconds(self, nbytes: float) -> float:
        """Time under the best protocol."""
        return min([regime.seconds(nbytes) for regime in self.regimes])

    def phase(self, nbytes: float) -> tuple[Phase, str]:
        """The stage at a size, under its fastest protocol, and the name of that."""
        best, time = self.regimes[0], self.regimes[0].seconds(nbytes)
        for regime in self.regimes[1:]:
            if (other := regime.seconds(nbytes)) < time:
                best, time = regime, other
        phase = Phase(
            name=self.name,
            latency=max(0.0, time - nbytes / best.rate),
            nbytes=nbytes,
            ceiling=best.rate,
            links=self.links,
            loads=self.loads,
            weight=self.weight,
            sm_share=self.sm_share,
            memory_share=self.memory_share,
            bottleneck=self.bottleneck,
        )
        return phase, best.protocol


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """What the graph says of a stage, before any constant: loads, the rate they allow, hops and wire latencies.

    ``levels``: (link kind, hops, seconds a hop on the wire), the outermost last.
    """

    stage: Stage
    links: np.ndarray
    loads: np.ndarray
    bottleneck: int
    ceiling: float
    flow_bytes: float
    levels: tuple[tuple[LinkKind, float, float], ...]


def footprint(cluster: Cluster, stage: Stage) -> Footprint:
    """Route the flows of a stage and sum the loads of links."""
    pair, link, share = cluster.router(stage.src, stage.dst)
    _check_reached(stage, pair)
    carried = share * stage.load[pair]
    loads = np.bincount(link, carried, minlength=cluster.num_links)
    used = np.flatnonzero(loads)
    spare = cluster.link_capacity[used] / loads[used]
    worst = int(np.argmin(spare))
    on_worst = link == used[worst]
    mean = float(np.sum(carried[on_worst] ** 2) / np.sum(carried[on_worst]))
    wire = np.bincount(pair, share * cluster.links.latency[link], minlength=len(stage.src))
    levels = []
    for level, hops in enumerate(stage.steps):
        rows = stage.level == level
        if rows.any():
            kind = _slowest_kind(cluster, link[rows[pair]])
            levels.append((kind, hops, float(wire[rows].max())))
    return Footprint(
        stage, used, loads[used], int(used[worst]), float(spare[worst]), mean, tuple(levels)
    )


def price(cluster: Cluster, collective: str, stage: Stage) -> PricedStage:
    """Price a stage under every protocol."""
    graph = footprint(cluster, stage)
    return PricedStage(
        stage.name,
        tuple(regimes(stage.rule, collective, graph.levels, graph.ceiling)),
        graph.links,
        graph.loads,
        graph.bottleneck,
        1.0 / graph.flow_bytes,
        sm_share(cluster, stage, graph.levels[-1][0]),
        0.0,
    )


def sm_share(cluster: Cluster, stage: Stage, kind: LinkKind) -> float:
    """Share of the device's compute units the kernel occupies: one a channel, by the constants of the link kind."""
    taken = kind.constants.get(f"{stage.rule}_units", kind.constants.get("units", 0.0))
    units = min((d.compute_units for d in cluster.device_kinds), default=0)
    return min(1.0, taken / units) if units else 0.0


def _slowest_kind(cluster: Cluster, link: np.ndarray) -> LinkKind:
    """The link kind whose constants a hop takes: one that has constants of collectives, else the slowest."""
    kinds: list[LinkKind] = [cluster.link_kinds[i] for i in np.unique(cluster.links.kind[link])]
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
