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


def price(cluster: Cluster, collective: str, stage: Stage) -> PricedStage:
    """Route the flows of a stage, sum the loads of links, and price it under every protocol."""
    pair, link, share = cluster.router(stage.src, stage.dst)
    _check_reached(stage, pair)
    links = cluster.links
    carried = share * stage.load[pair]
    loads = np.bincount(link, carried, minlength=len(links.bandwidth))
    used = np.flatnonzero(loads)
    efficiency = np.array([kind.efficiency for kind in cluster.link_kinds])
    capacity = links.bandwidth[used] * efficiency[links.kind[used]]
    spare = capacity / loads[used]
    worst = int(np.argmin(spare))
    on_worst = link == used[worst]
    mean = float(np.sum(carried[on_worst] ** 2) / np.sum(carried[on_worst]))
    wire = np.bincount(pair, share * links.latency[link], minlength=len(stage.src))
    levels = []
    for level, hops in enumerate(stage.steps):
        rows = stage.level == level
        if rows.any():
            kind = _slowest_kind(cluster, link[rows[pair]], stage.rule, collective)
            levels.append((kind, hops, float(wire[rows].max())))
    outer = levels[-1][0]
    return PricedStage(
        stage.name,
        tuple(regimes(stage.rule, collective, levels, float(spare[worst]))),
        used,
        loads[used],
        int(used[worst]),
        1.0 / mean,
        sm_share(cluster, stage, outer),
        0.0,
    )


def sm_share(cluster: Cluster, stage: Stage, kind: LinkKind) -> float:
    """Share of the device's compute units the kernel occupies: one a channel, by the constants of the link kind."""
    taken = kind.constants.get(f"{stage.rule}_units", kind.constants.get("units", 0.0))
    units = min((d.compute_units for d in cluster.device_kinds), default=0)
    return min(1.0, taken / units) if units else 0.0


def _slowest_kind(cluster: Cluster, link: np.ndarray, rule: str, collective: str) -> LinkKind:
    kinds: list[LinkKind] = [cluster.link_kinds[i] for i in np.unique(cluster.links.kind[link])]
    return max(
        kinds,
        key=lambda k: (k.constants.get("simple_step", k.constants.get("step", 0.0)), k.latency),
    )


def _check_reached(stage: Stage, pair: np.ndarray) -> None:
    reached = np.zeros(len(stage.src), dtype=bool)
    reached[pair] = True
    if not reached.all():
        lost = int(np.argmin(reached))
        raise CollectiveError(
            f"devices {int(stage.src[lost])} and {int(stage.dst[lost])} are not connected; "
            "leave one out of the group, or mend the link between them"
        )
