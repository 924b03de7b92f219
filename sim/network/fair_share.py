"""Max-min fair rates of activities that share resources.

An activity ``a`` works at rate r_a, at most ``ceiling[a]``, and uses ``load`` of a resource for each unit of work.
Fairness is over flows: with weight w_a (the work rate one unit of per-flow rate gives), a level x rises from 0 for
all; r_a = w_a x until the activity meets its ceiling or a resource it uses is full. What has met a limit is frozen, the
rest rises on.

The method is bottleneck-local: what the unfrozen get of a resource only grows as others freeze, so in one pass every
resource that is the tightest of all its activities freezes them, and every activity whose ceiling is lower than what
its resources give it meets it; independent parts of the network are solved side by side. Source: the idea of
Bertsekas and Gallager, *Data Networks*, 6.5.2; the local form is that of flow-level simulators.
"""

from collections.abc import Sequence

import numpy as np

_SLACK = 1.0 + 1e-12


def fair_rates(
    *,
    ceiling: np.ndarray,
    weight: np.ndarray,
    activity: np.ndarray,
    resource: np.ndarray,
    load: np.ndarray,
    capacity: np.ndarray,
) -> np.ndarray:
    """Return the max-min fair work rate of each activity, (num_activities,).

    ``ceiling``, ``weight`` (num_activities,); ``activity``, ``resource``, ``load``: one row a use (COO); ``capacity``
    (num_resources,), in the unit of load x rate.

    >>> two = np.array([0, 1])
    >>> fair_rates(ceiling=np.array([9.0, 2.0]), weight=np.ones(2), activity=two,
    ...     resource=np.array([0, 0]), load=np.ones(2), capacity=np.array([10.0]))
    array([8., 2.])
    """
    most = ceiling / weight
    rate = ceiling.astype(float)
    edges = _Edges(activity, resource, load, weight)
    left = capacity[edges.names].astype(float)
    level, frozen = most.copy(), np.zeros(len(ceiling), dtype=bool)
    while len(edges.row):
        act, given = edges.activities, edges.given(left)
        level[act] = np.minimum(edges.least_of_activity(given), most[act])
        done = (most[act] <= level[act] * _SLACK) | edges.any_of_activity(edges.tight(given, level))
        rate[act[done]] = weight[act[done]] * level[act[done]]
        frozen[act[done]] = True
        left -= edges.taken(np.where(frozen, rate, 0.0), len(left))
        edges.drop(frozen)
    return rate


class _Edges:
    """Uses of resources by the activities not yet frozen, sorted by activity, and again by resource.

    ``names``: the resources used at all; ``column`` numbers those, ``row`` are activities (``_r``: sorted by resource).
    """

    __slots__ = (
        "activities", "column", "column_r", "first", "first_r", "load", "names", "row", "row_r", "weighted",
    )  # fmt: skip

    def __init__(
        self, activity: np.ndarray, resource: np.ndarray, load: np.ndarray, weight: np.ndarray
    ) -> None:
        counts = np.bincount(resource) if len(resource) else np.zeros(0, np.int64)
        self.names = np.flatnonzero(counts)
        column = (np.cumsum(counts > 0) - 1)[resource]
        if (activity[1:] < activity[:-1]).any():
            order = _order(activity)
            activity, column, load = activity[order], column[order], load[order]
        self.row, self.column, self.load = activity, column, load
        self.weighted = load * weight[activity]
        order = _order(column)
        self.row_r, self.column_r = activity[order], column[order]
        self._mark()

    def _mark(self) -> None:
        """Note where each activity and each resource begins."""
        self.first, self.first_r = _begins(self.row), _begins(self.column_r)
        self.activities = self.row[self.first]

    def given(self, left: np.ndarray) -> np.ndarray:
        """Return the level at which each resource is full."""
        demand = np.bincount(self.column, self.weighted, minlength=len(left))
        level = np.full(len(left), np.inf)
        np.divide(np.maximum(left, 0.0), demand, out=level, where=demand > 0)
        return level

    def least_of_activity(self, given: np.ndarray) -> np.ndarray:
        """Return the least each activity gets of its resources."""
        return np.minimum.reduceat(given[self.column], self.first)

    def any_of_activity(self, tight: np.ndarray) -> np.ndarray:
        """Return whether each activity uses a tight resource."""
        return np.logical_or.reduceat(tight[self.column], self.first)

    def tight(self, given: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Return which resources are the tightest of all their activities."""
        lowest = np.minimum.reduceat(level[self.row_r], self.first_r)
        tight = np.zeros(len(given), dtype=bool)
        used = self.column_r[self.first_r]
        tight[used] = given[used] <= lowest * _SLACK
        return tight

    def taken(self, rate: np.ndarray, num_resources: int) -> np.ndarray:
        """Return what activities at ``rate`` take of each resource."""
        return np.bincount(self.column, rate[self.row] * self.load, minlength=num_resources)

    def drop(self, frozen: np.ndarray) -> None:
        """Leave out the frozen activities."""
        keep = ~frozen[self.row]
        self.row, self.column = self.row[keep], self.column[keep]
        self.load, self.weighted = self.load[keep], self.weighted[keep]
        keep = ~frozen[self.row_r]
        self.row_r, self.column_r = self.row_r[keep], self.column_r[keep]
        self._mark()


def _begins(ranked: np.ndarray) -> np.ndarray:
    """Return where each value of a sorted array begins."""
    new = np.ones(len(ranked), dtype=bool)
    np.not_equal(ranked[1:], ranked[:-1], out=new[1:])
    return np.flatnonzero(new)


def _order(values: np.ndarray) -> np.ndarray:
    """Return the stable order of small whole numbers (numpy sorts those of 16 bits by radix)."""
    low = np.argsort((values & 0xFFFF).astype(np.uint16), kind="stable")
    high = values >> 16
    return low[np.argsort(high[low].astype(np.uint16), kind="stable")] if high.any() else low


Use = tuple[int, float]


def fair_rates_few(
    ceilings: Sequence[float],
    weights: Sequence[float],
    uses: Sequence[Sequence[Use]],
    capacity: Sequence[float],
) -> list[float]:
    """Return the same rates for a handful of activities, without arrays (the engine's common case).

    ``uses[a]``: (resource, load) pairs; ``capacity[resource]``.
    """
    left: dict[int, float] = {}
    for use in uses:
        for resource, _ in use:
            left[resource] = capacity[resource]
    rates = [0.0] * len(uses)
    unfrozen = list(range(len(uses)))
    while unfrozen:
        demand: dict[int, float] = {}
        for a in unfrozen:
            for resource, load in uses[a]:
                demand[resource] = demand.get(resource, 0.0) + load * weights[a]
        level = min(ceilings[a] / weights[a] for a in unfrozen)
        for resource, wanted in demand.items():
            if wanted > 0:
                level = min(level, max(left[resource], 0.0) / wanted)
        bound = level * _SLACK
        full = {r for r, wanted in demand.items() if wanted > 0 and left[r] / wanted <= bound}
        still = []
        for a in unfrozen:
            if ceilings[a] / weights[a] <= bound or any(r in full for r, _ in uses[a]):
                rates[a] = weights[a] * level
                for resource, load in uses[a]:
                    left[resource] -= load * rates[a]
            else:
                still.append(a)
        unfrozen = still
    return rates
