"""Shared: the activities that are on the network now, and the rate each has."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sim.network.fair_share import Use, fair_rates, fair_rates_few

_MANY = 24
"""Components larger than this are solved with arrays (measured: the two cost the same near 24 activities)."""


class Flow:
    """One activity's claim on the network: ceiling, weight, resources used, and the rate it should have now.

    ``left`` bytes, ``since`` (s), ``speed`` (the rate it has been going at since then) and ``timer`` are the engine's.
    """

    __slots__ = ("ceiling", "left", "rate", "since", "speed", "timer", "uses", "weight")

    def __init__(self, ceiling: float, weight: float, uses: tuple[Use, ...]) -> None:
        self.ceiling = ceiling
        self.weight = weight
        self.uses = uses
        self.rate = self.speed = ceiling
        self.left = self.since = 0.0
        self.timer: Any = None


class Shared:
    """Resources and the flows on them; a change solves again only the flows it can reach."""

    __slots__ = ("capacity", "users")

    def __init__(self, capacity: list[float]) -> None:
        self.capacity = capacity
        self.users: list[dict[Flow, None]] = [{} for _ in capacity]

    def start(self, flow: Flow) -> list[Flow]:
        """Put a flow on its resources; return all flows whose rate may have changed (itself first)."""
        alone = True
        for resource, _ in flow.uses:
            users = self.users[resource]
            if users:
                alone = False
            users[flow] = None
        if not alone:
            return self._solve([flow])
        flow.rate = flow.ceiling
        for resource, load in flow.uses:
            if flow.rate * load > self.capacity[resource]:
                flow.rate = self.capacity[resource] / load
        return [flow]

    def stop(self, flow: Flow) -> list[Flow]:
        """Take a flow off; return all flows whose rate may have changed."""
        neighbours: dict[Flow, None] = {}
        for resource, _ in flow.uses:
            users = self.users[resource]
            del users[flow]
            if users:
                neighbours.update(users)
        return self._solve(neighbours) if neighbours else []

    def set_capacity(self, resource: int, capacity: float) -> list[Flow]:
        """Change a resource; return all flows whose rate may have changed."""
        self.capacity[resource] = capacity
        return self._solve(self.users[resource]) if self.users[resource] else []

    def _component(self, start: Iterable[Flow]) -> list[Flow]:
        found: dict[Flow, None] = dict.fromkeys(start)
        queue = list(found)
        seen: set[int] = set()
        while queue:
            for resource, _ in queue.pop().uses:
                if resource not in seen:
                    seen.add(resource)
                    for other in self.users[resource]:
                        if other not in found:
                            found[other] = None
                            queue.append(other)
        return list(found)

    def _solve(self, start: Iterable[Flow]) -> list[Flow]:
        flows = self._component(start)
        if len(flows) <= _MANY:
            rates = fair_rates_few(
                [f.ceiling for f in flows],
                [f.weight for f in flows],
                [f.uses for f in flows],
                self.capacity,
            )
        else:
            rates = self._solve_many(flows)
        for flow, rate in zip(flows, rates, strict=True):
            flow.rate = rate
        return flows

    def _solve_many(self, flows: list[Flow]) -> list[float]:
        uses = [(a, r, load) for a, flow in enumerate(flows) for r, load in flow.uses]
        activity, resource, load = (np.array(column) for column in zip(*uses, strict=True))
        distinct, resource = np.unique(resource, return_inverse=True)
        found = fair_rates(
            ceiling=np.array([f.ceiling for f in flows]),
            weight=np.array([f.weight for f in flows]),
            activity=activity,
            resource=resource,
            load=load,
            capacity=np.array([self.capacity[r] for r in distinct]),
        )
        return [float(rate) for rate in found]
