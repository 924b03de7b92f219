"""Shared: the activities that are on the network now, and the rate each has.

A flow comes to its links when its latency is over (``since``). Until then it *waits*: it is known, and counts for
nobody. A flow that meets nobody never needs to be told that its time has come; one that does is woken then.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sim.network.fair_share import Use, fair_rates, fair_rates_few

_MANY = 24
"""Components larger than this are solved with arrays (measured: the two cost the same near 24 activities)."""


class Flow:
    """One activity's claim on the network: ceiling, weight, resources used, and the rate it should have now.

    ``left`` bytes, ``since`` (s), ``speed`` (the rate it has been going at since then) and ``timer`` are the engine's.
    ``waits``: its latency is not known to be over; ``woken``: somebody will say when it is.
    """

    __slots__ = (
        "ceiling", "left", "rate", "since", "speed", "timer", "uses", "waits", "weight", "woken",
    )  # fmt: skip

    def __init__(self, ceiling: float, weight: float, uses: tuple[Use, ...]) -> None:
        self.ceiling = ceiling
        self.weight = weight
        self.uses = uses
        self.rate = self.speed = ceiling
        self.left = self.since = 0.0
        self.timer: Any = None
        self.waits = self.woken = False


def _nobody(flow: Flow) -> None:
    """Wake no flow."""


class Shared:
    """Resources and the flows on them; a change solves again only the flows it can reach.

    ``wake`` is called with a flow that must `join` when its latency is over.
    """

    __slots__ = ("capacity", "users", "wake")

    def __init__(self, capacity: list[float]) -> None:
        self.capacity = capacity
        self.users: list[dict[Flow, None]] = [{} for _ in capacity]
        self.wake: Callable[[Flow], None] = _nobody

    def start(self, flow: Flow, now: float = 0.0) -> list[Flow]:
        """Put a flow on its resources; return all flows whose rate may have changed (itself first)."""
        alone = self._enter(flow, now)
        if flow.since > now:
            flow.waits = True
            if not alone:
                self._call(flow)
        elif not alone:
            return self._solve([flow])
        flow.rate = self._lone(flow)
        return [flow]

    def start_all(self, flows: list[Flow], now: float = 0.0) -> list[Flow]:
        """Put flows whose latency is over on their resources at once; return all whose rate may have changed."""
        for flow in flows:
            self._enter(flow, now)
        return self._solve(flows)

    def join(self, flow: Flow) -> list[Flow]:
        """Let a flow whose latency is over count; return all flows whose rate may have changed."""
        if not flow.waits:
            return []
        flow.waits = False
        return self._solve([flow])

    def stop(self, flow: Flow) -> list[Flow]:
        """Take a flow off; return all flows whose rate may have changed."""
        flow.waits = False
        neighbours: dict[Flow, None] = {}
        for resource, _ in flow.uses:
            users = self.users[resource]
            del users[flow]
            if users:
                neighbours.update(users)
        running = [other for other in neighbours if not other.waits]
        return self._solve(running) if running else []

    def set_capacity(self, resource: int, capacity: float, now: float = 0.0) -> list[Flow]:
        """Change a resource; return all flows whose rate may have changed."""
        self.capacity[resource] = capacity
        users = list(self.users[resource])
        for flow in users:
            flow.waits = flow.waits and flow.since > now
        waiting = [flow for flow in users if flow.waits]
        for flow in waiting:
            flow.rate = self._lone(flow)
        running = [flow for flow in users if not flow.waits]
        return waiting + (self._solve(running) if running else [])

    def _enter(self, flow: Flow, now: float) -> bool:
        """Note a flow on its resources, settle who of the others there waits; say whether there are none."""
        alone = True
        for resource, _ in flow.uses:
            users = self.users[resource]
            if users:
                alone = False
                for other in users:
                    if other.waits:
                        other.waits = other.since > now
                        self._call(other)
            users[flow] = None
        return alone

    def _call(self, flow: Flow) -> None:
        if flow.waits and not flow.woken:
            flow.woken = True
            self.wake(flow)

    def _lone(self, flow: Flow) -> float:
        """Return the rate of a flow that has its resources to itself."""
        rate = flow.ceiling
        for resource, load in flow.uses:
            if rate * load > self.capacity[resource]:
                rate = self.capacity[resource] / load
        return rate

    def _component(self, start: Iterable[Flow]) -> list[Flow]:
        found: dict[Flow, None] = dict.fromkeys(start)
        queue = list(found)
        seen: set[int] = set()
        while queue:
            for resource, _ in queue.pop().uses:
                if resource not in seen:
                    seen.add(resource)
                    for other in self.users[resource]:
                        if other not in found and not other.waits:
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
