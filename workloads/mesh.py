"""Mesh: which rank stands where on the axes, and the groups of each axis."""

import numpy as np

from workloads.plan import Plan


def coordinates(plan: Plan) -> dict[str, np.ndarray]:
    """Return, for each axis, the coordinate of every rank: arrays (num_devices,).

    ``plan.order`` names the axes from the fastest-varying to the slowest.
    """
    shape = [getattr(plan, axis) for axis in reversed(plan.order)]
    index = np.indices(shape).reshape(len(shape), -1)
    return dict(zip(reversed(plan.order), index, strict=True))


def groups(plan: Plan, axes: tuple[str, ...]) -> np.ndarray:
    """Return the groups that span these axes together: (num_groups, degree) ranks.

    Within a group ranks go in rank order of the given axes, the first axis varying fastest.
    """
    shape = [getattr(plan, axis) for axis in reversed(plan.order)]
    ranks = np.arange(plan.num_devices).reshape(shape)
    names = list(reversed(plan.order))
    inside = [names.index(axis) for axis in reversed(axes)]
    outside = [i for i in range(len(names)) if i not in inside]
    degree = int(np.prod([shape[i] for i in inside])) if inside else 1
    return np.ascontiguousarray(ranks.transpose(outside + inside).reshape(-1, degree))


def neighbours(plan: Plan, offset: int) -> np.ndarray:
    """Return, for every rank, the rank ``offset`` pipeline places on, around the ring: (num_devices,)."""
    here = coordinates(plan)
    stride = int(np.prod([getattr(plan, axis) for axis in plan.order[: plan.order.index("pp")]]))
    place = here["pp"]
    return np.arange(plan.num_devices) + ((place + offset) % plan.pp - place) * stride
