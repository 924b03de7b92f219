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
    return np.asarray(np.arange(plan.num_devices) + ((place + offset) % plan.pp - place) * stride)


def mirror(plan: Plan) -> np.ndarray:
    """Return, for every rank, the rank at the same distance from the other end of the pipeline: (num_devices,)."""
    here = coordinates(plan)
    stride = int(np.prod([getattr(plan, axis) for axis in plan.order[: plan.order.index("pp")]]))
    return np.asarray(np.arange(plan.num_devices) + (plan.pp - 1 - 2 * here["pp"]) * stride)


def expert_groups(plan: Plan) -> dict[str, np.ndarray]:
    """Return the groups of the experts' axes: ``ep``, ``etp`` and ``edp`` (who holds the same experts).

    Experts use the ranks of one pipeline place, in rank order: etp varies fastest, then ep, then edp. So ep x etp
    neighbours hold one copy of all experts, whatever tp, cp and dp are.
    """
    inside = tuple(axis for axis in plan.order if axis != "pp")
    ranks = groups(plan, inside)
    copies = ranks.shape[1] // (plan.ep * plan.etp)
    cube = ranks.reshape(len(ranks), copies, plan.ep, plan.etp)
    return {
        "etp": cube.reshape(-1, plan.etp),
        "ep": cube.transpose(0, 1, 3, 2).reshape(-1, plan.ep),
        "edp": cube.transpose(0, 2, 3, 1).reshape(-1, copies),
    }


def expert_places(plan: Plan) -> np.ndarray:
    """Return every rank's place in its expert-parallel group: (num_devices,)."""
    places = np.empty(plan.num_devices, dtype=np.int64)
    places[expert_groups(plan)["ep"]] = np.arange(plan.ep)
    return places
