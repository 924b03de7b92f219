"""Max-min fair rates of activities that share resources.

An activity ``a`` works at rate r_a, at most ``ceiling[a]``, and uses ``load`` of a resource for each unit of work. Fairness
is over flows: with weight w_a (the work rate one unit of per-flow rate gives), a level x rises from 0 for all; r_a =
w_a x until the activity meets its ceiling or a resource it uses is full. What has met a limit is frozen, the rest
rises on.

The method is bottleneck-local: in one pass every activity whose own limit is the lowest among all activities it shares a
resource with is frozen at once, so independent parts of the network are solved side by side. Source: the idea of
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
    rate = np.zeros(len(ceiling))
    left = capacity.astype(float).copy()
    level_cap = ceiling / weight
    demand_of = load * weight[activity]
    alive = np.arange(len(activity))
    open_ = np.ones(len(ceiling), dtype=bool)
    while open_.any():
        act, res = activity[alive], resource[alive]
        demand = np.bincount(res, weights=demand_of[alive], minlength=len(left))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(demand > 0, np.maximum(left, 0.0) / demand, np.inf)
        level = np.where(open_, level_cap, np.inf)
        np.minimum.at(level, act, share[res])
        lowest = np.full(len(left), np.inf)
        np.minimum.at(lowest, res, level[act])
        around = level.copy()
        np.minimum.at(around, act, lowest[res])
        frozen = open_ & (level <= around * _SLACK)
        rate[frozen] = weight[frozen] * level[frozen]
        gone = frozen[act]
        np.subtract.at(left, res[gone], (load[alive] * rate[activity[alive]])[gone])
        open_ &= ~frozen
        alive = alive[~gone]
    return rate


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
