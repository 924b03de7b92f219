"""Sharding: who shares states with whom: degrees and groups of data parallelism.

``shard`` limits the sharding to groups of that size (HSDP); ``secondary`` keeps a second copy of the parameters sharded
over neighbours (ZeRO++'s hpZ).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workloads.mesh import coordinates, expert_groups, groups, mirror
from workloads.plan import Plan
from workloads.schedules import SCHEDULES


@dataclass(frozen=True)
class Sharding:
    """How states are spread: degrees and axes of parameters outside (``dense``) and inside routed experts.

    A bidirectional pipeline has two copies of each stage, on mirrored places: they share states too.
    """

    plan: Plan

    @cached_property
    def copies(self) -> int:
        """Places of the pipeline that hold the same stage."""
        return SCHEDULES[self.plan.schedule].placement(self.plan.pp).num_directions

    @cached_property
    def degree(self) -> int:
        """Ranks that hold the same dense parameters."""
        return self.plan.dp * self.plan.cp * self.copies

    @cached_property
    def expert_degree(self) -> int:
        """Ranks that hold the same routed experts."""
        plan = self.plan
        return plan.tp * plan.cp * plan.dp // (plan.ep * plan.etp) * self.copies

    @cached_property
    def shard(self) -> int:
        """Ranks the sharded states of dense parameters are spread over."""
        return self.plan.shard or self.degree

    @cached_property
    def expert_shard(self) -> int:
        """Ranks the sharded states of routed experts are spread over."""
        return min(self.shard, self.expert_degree)

    @cached_property
    def local(self) -> int:
        """Ranks a backward gathers parameters from: those of the secondary shards, or those of the shards."""
        return self.plan.secondary or self.shard

    def groups(self) -> dict[str, np.ndarray]:
        """Return the groups of the axes used here."""
        plan = self.plan
        dense = self._mirrored(groups(plan, ("cp", "dp")))
        found = {"dp": dense}
        if self.shard < self.degree:
            parts = dense.reshape(len(dense), -1, self.shard)
            found["dp.shard"] = parts.reshape(-1, self.shard)
            found["dp.replica"] = parts.transpose(0, 2, 1).reshape(-1, self.degree // self.shard)
        if self.plan.secondary and self.local < self.degree:
            found["dp.local"] = dense.reshape(-1, self.local)
        if plan.ep * plan.etp > 1:
            expert = expert_groups(plan)
            found |= expert | {"edp": self._mirrored(expert["edp"])}
        return found

    def _mirrored(self, found: np.ndarray) -> np.ndarray:
        """Join each group with the one that holds the same stages at the other end of the pipeline."""
        if self.copies == 1:
            return found
        place = coordinates(self.plan)["pp"]
        near = found[place[found[:, 0]] < self.plan.pp // 2]
        return np.concatenate([near, mirror(self.plan)[near]], axis=1)

    def axis(self, expert: bool, *, again: bool = False) -> str:
        """Axis that sharded states of this kind are gathered and reduced over; ``again``: gathered for backward."""
        if expert and self.plan.ep * self.plan.etp > 1:
            return "edp"
        if again and self.plan.secondary:
            return "dp.local" if self.local < self.degree else "dp"
        return "dp.shard" if self.shard < self.degree else "dp"
