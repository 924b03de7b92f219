"""Communicator: the groups of one axis on one cluster, and the plans of their collectives."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.cluster import Cluster
from sim.collectives.cost import PricedStage, price
from sim.collectives.expert import expert_stage
from sim.collectives.layout import blocks, whole
from sim.collectives.library import ALGORITHMS, library_of
from sim.collectives.pairwise import uneven
from sim.collectives.phase import CollectivePlan
from sim.collectives.stage import Algorithm, Block, Stage
from sim.errors import CollectiveError, unknown
from sim.program import Spread

KINDS = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter", "send_recv",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Way:
    """One algorithm, priced on the graph."""

    algorithm: str
    stages: tuple[PricedStage, ...]

    def seconds(self, nbytes: float) -> float:
        return sum([stage.seconds(nbytes) for stage in self.stages])


@dataclass(eq=False, slots=True)
class Communicator:
    """All groups of one axis, running at once: ``groups`` (num_groups, n) device indices.

    `plan` is cheap after the first call of a (kind, algorithm): loads for one byte are kept, sizes only scale them.
    `CollectiveError` if a device is listed twice, does not exist or cannot be reached.
    """

    cluster: Cluster
    groups: np.ndarray
    library: Sequence[str] = ()
    _blocks: tuple[Block, ...] = field(default=(), init=False)
    _ways: dict[tuple[str, str], tuple[_Way, ...]] = field(default_factory=dict, init=False)
    _plans: dict[tuple[str, float, str], CollectivePlan] = field(default_factory=dict, init=False)
    _spreads: dict[tuple[str, Spread], PricedStage] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.groups = np.atleast_2d(np.asarray(self.groups, dtype=np.int64))
        _check_groups(self.groups, self.cluster.num_devices)

    @property
    def size(self) -> int:
        """Members of a group."""
        return int(self.groups.shape[1])

    @property
    def owner(self) -> np.ndarray:
        """(num_devices,) the group of each device; -1 for devices outside."""
        owner = np.full(self.cluster.num_devices, -1)
        owner[self.groups] = np.arange(len(self.groups))[:, None]
        return owner

    def plan(
        self, kind: str, nbytes: float, algorithm: str = "auto", spread: Spread | None = None
    ) -> CollectivePlan:
        """How ``kind`` of ``nbytes`` (as nccl-tests counts them) runs; ``auto`` takes the fastest the library has.

        ``spread``: an all-to-all whose members do not all get the same, or whose items go to several of them.
        `CollectiveError` if the kind or algorithm does not exist or the algorithm cannot run on these groups.
        """
        if spread is not None and self.size > 1 and (spread.shares or algorithm == "ep"):
            return self._spread(float(nbytes), algorithm, spread)
        key = (kind, nbytes, algorithm)
        if (known := self._plans.get(key)) is not None:
            return known
        if not nbytes > 0:
            raise CollectiveError(
                f"{kind} of nbytes={nbytes}: must be above zero; give its size in bytes"
            )
        plan = self._choose(kind, float(nbytes), algorithm)
        if len(self._plans) < MOST_PLANS:
            self._plans[key] = plan
        return plan

    def all_to_all(self, matrix: np.ndarray) -> CollectivePlan:
        """Plan an all-to-all in which member i sends ``matrix[i, j]`` bytes to member j (skewed experts).

        ``matrix`` (n, n), the same in every group, or (num_groups, n, n). `CollectiveError` for another shape, a
        negative entry, or nothing to send.
        """
        sizes = np.asarray(matrix, dtype=float)
        n = self.size
        if sizes.shape not in {(n, n), (len(self.groups), n, n)}:
            raise CollectiveError(
                f"matrix has shape {sizes.shape}; give ({n}, {n}) bytes, or one such a group"
            )
        if not (sizes >= 0).all():
            raise CollectiveError("matrix has a negative entry; give bytes, zero for none")
        off = sizes * (1 - np.eye(n))
        if not off.any():
            return CollectivePlan(kind="all_to_all", algorithm="none", protocol="none", phases=())
        block = whole(self.cluster, self.groups)
        priced = price(self.cluster, "all_to_all", uneven(block, sizes), self.owner)
        phase, protocol = priced.phase(
            float(np.broadcast_to(sizes, (len(self.groups), n, n)).sum(axis=2).mean())
        )
        return CollectivePlan(
            kind="all_to_all", algorithm="pairwise", protocol=protocol, phases=(phase,)
        )

    def _spread(self, nbytes: float, algorithm: str, spread: Spread) -> CollectivePlan:
        """An all-to-all by what each item wants: by an expert-parallel kernel, else pairwise, every copy for itself."""
        if spread.shares and len(spread.shares) != self.size:
            raise CollectiveError(
                f"spread.shares has {len(spread.shares)} parts; the groups have {self.size} members: give one each"
            )
        if algorithm != "ep":
            part = np.asarray(spread.shares)
            matrix = np.broadcast_to(part, (self.size, self.size)) * nbytes
            return self.all_to_all(matrix.T if spread.back else matrix)
        key = ("ep", spread)
        if key not in self._spreads:
            stage = expert_stage(self.cluster, self.groups, spread)
            self._spreads[key] = price(self.cluster, "all_to_all", stage, self.owner)
        phase, protocol = self._spreads[key].phase(nbytes)
        return CollectivePlan(kind="all_to_all", algorithm="ep", protocol=protocol, phases=(phase,))

    def _choose(self, kind: str, nbytes: float, algorithm: str) -> CollectivePlan:
        if self.size == 1:
            self._algorithms(kind, algorithm)
            return CollectivePlan(kind=kind, algorithm="none", protocol="none", phases=())
        ways = self._ways.get((kind, algorithm))
        if ways is None:
            ways = self._ways[kind, algorithm] = self._price(kind, algorithm)
        best = ways[0] if len(ways) == 1 else min(ways, key=lambda way: way.seconds(nbytes))
        parts = [stage.phase(nbytes) for stage in best.stages]
        protocol = "+".join(dict.fromkeys(p for _, p in parts))
        return CollectivePlan(
            kind=kind,
            algorithm=best.algorithm,
            protocol=protocol,
            phases=tuple(p for p, _ in parts),
        )

    def _algorithms(self, kind: str, algorithm: str) -> list[Algorithm]:
        if kind not in KINDS:
            raise CollectiveError(unknown("collective", kind, KINDS))
        if algorithm == "auto":
            names = self.library or library_of(self.cluster, self.groups)
            return [ALGORITHMS[a] for a in names if kind in ALGORITHMS[a].kinds]
        if algorithm not in ALGORITHMS:
            raise CollectiveError(unknown("algorithm", algorithm, ALGORITHMS))
        if kind not in ALGORITHMS[algorithm].kinds:
            able = [a.name for a in ALGORITHMS.values() if kind in a.kinds]
            raise CollectiveError(f"{algorithm} cannot do {kind}; choose from {', '.join(able)}")
        return [ALGORITHMS[algorithm]]

    def _price(self, kind: str, algorithm: str) -> tuple[_Way, ...]:
        """Price every candidate; what cannot run drops out of ``auto`` and is an error by name."""
        if not self._blocks:
            self._blocks = blocks(self.cluster, self.groups)
        ways, reasons, owner = [], [], self.owner
        for candidate in self._algorithms(kind, algorithm):
            stages = join(candidate, kind, self._blocks)
            if isinstance(stages, str):
                reasons.append(f"{candidate.name} {stages}")
                continue
            ways.append(
                _Way(candidate.name, tuple(price(self.cluster, kind, s, owner) for s in stages))
            )
        if not ways:
            raise CollectiveError(
                f"{kind} over groups of {self.size}: {'; '.join(reasons) or 'no algorithm'}; "
                "choose another algorithm, or auto"
            )
        return tuple(ways)


MOST_PLANS = 4096
"""Plans kept; later sizes are planned anew each time."""


def join(algorithm: Algorithm, kind: str, parts: Sequence[Block]) -> tuple[Stage, ...] | str:
    """Stages of all blocks at once, stage by stage; they must agree in number."""
    each = []
    for block in parts:
        made = algorithm.stages(kind, block)
        if isinstance(made, str):
            return made
        each.append(made)
    if len({len(made) for made in each}) > 1:
        return "needs every group laid out alike"
    return tuple(_merge(same) for same in zip(*each, strict=True)) if len(each) > 1 else each[0]


def _merge(same: Sequence[Stage]) -> Stage:
    depth = max(len(s.steps) for s in same)
    steps = [max((s.steps[l] if l < len(s.steps) else 0.0) for s in same) for l in range(depth)]
    return Stage(
        name=same[0].name,
        rule=same[0].rule,
        src=np.concatenate([s.src for s in same]),
        dst=np.concatenate([s.dst for s in same]),
        load=np.concatenate([s.load for s in same]),
        level=np.concatenate([s.level for s in same]),
        steps=tuple(steps),
        channels=max(s.channels for s in same),
        turn=np.concatenate([s.turn for s in same]),
    )


def _check_groups(groups: np.ndarray, num_devices: int) -> None:
    if groups.size == 0:
        raise CollectiveError("groups is empty: give at least one group of at least one device")
    out = groups[(groups < 0) | (groups >= num_devices)]
    if len(out):
        raise CollectiveError(
            f"device {int(out[0])} does not exist; the cluster has devices 0 to {num_devices - 1}"
        )
    counts = np.bincount(groups.ravel())
    if counts.max() > 1:
        twice = int(np.argmax(counts > 1))
        raise CollectiveError(
            f"device {twice} is listed twice; list every device of the groups once"
        )
