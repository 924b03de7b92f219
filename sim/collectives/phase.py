"""Phase: one activity of a collective, as the engine plays it."""

from dataclasses import dataclass

import numpy as np

from sim.collectives.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phase:
    """A latency, then ``nbytes`` of work that moves at most at ``ceiling`` bytes/s (the rate reached alone).

    ``links``/``loads``: bytes that cross each link for one byte of work when all groups of the communicator run at
    once. ``weight``: work rate of this activity for one unit of per-flow rate on its bottleneck (1 / bytes a flow
    carries for one byte of work); max-min sharing is fair over flows. ``own``: bytes/s of one group of the communicator
    without the others (0: as ``ceiling``). ``sm_share``, ``memory_share``: of the device's
    compute and memory bandwidth while it runs. ``hops``: the part of the latency that its steps take one after another;
    ``stage``: the flows it stands for.
    """

    name: str
    latency: float
    nbytes: float
    ceiling: float
    links: np.ndarray
    loads: np.ndarray
    weight: float = 1.0
    sm_share: float = 0.0
    memory_share: float = 0.0
    bottleneck: int = -1
    own: float = 0.0
    hops: float = 0.0
    stage: Stage | None = None

    @property
    def alone(self) -> float:
        """Seconds on an idle machine."""
        return self.latency + (self.nbytes / self.ceiling if self.nbytes else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CollectivePlan:
    """How a collective will run: the algorithm and protocol chosen, and its chain of phases."""

    kind: str
    algorithm: str
    protocol: str
    phases: tuple[Phase, ...]

    @property
    def alone(self) -> float:
        """Seconds on an idle machine."""
        return sum(phase.alone for phase in self.phases)
