"""Expert loads: what experts of every rank get, layer by layer: which ranks differ, and how many tokens are dropped."""

from functools import lru_cache

import numpy as np

from workloads.model import Model
from workloads.plan import Plan
from workloads.routing import UNIFORM, Load, expert_shares, parse_routing, rank_loads
from workloads.schedules import find_schedule


@lru_cache(maxsize=4096)
def loads_of(plan: Plan, model: Model, layer: int, microbatch: int) -> tuple[Load, ...]:
    """Return what the experts of every rank of a group get in one layer and microbatch."""
    shares = expert_shares(
        plan.routing, model.num_experts, layer, microbatch, model.experts_per_token
    )
    return rank_loads(shares, plan.ep, plan.capacity, padded=plan.padded)


def expert_kinds(model: Model, plan: Plan) -> np.ndarray:
    """Return, for each place on ep, the first place that gets as much in every layer and microbatch: (ep,)."""
    if plan.routing == UNIFORM or plan.padded:
        return np.zeros(plan.ep, dtype=np.int64)
    if parse_routing(plan.routing).by_microbatch and not plan.capacity:
        return np.arange(plan.ep)  # no two draws are equal
    table = np.array([[load[:2] for load in loads] for loads in _every(model, plan)], dtype=float)
    places = table.transpose(1, 0, 2).reshape(plan.ep, -1)
    _, first, kind = np.unique(places, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[kind.reshape(-1)])


def dropped(model: Model, plan: Plan) -> tuple[str, ...]:
    """Return what a replay assumes about tokens that experts drop."""
    if plan.dropless or not model.is_moe:
        return ()
    lost = 1.0 - (
        min(plan.capacity, 1.0)
        if plan.routing == UNIFORM
        else float(np.mean([loads[0].kept for loads in _every(model, plan)]))
    )
    word = f"capacity={plan.capacity:g}"
    if plan.capacity < 1.0:
        word += ", less than the 1 that even routing needs,"
    if lost > 0.0:
        share = f"{lost:.1%}" if lost >= 0.001 else "less than 0.1 %"
        return (
            f"{word} with routing={plan.routing} drops {share} of token copies; mfu counts them",
        )
    filled = "experts are filled up to it" if plan.padded else "without padding it has no effect"
    return (f"{word} with routing={plan.routing} drops no token; {filled}",)


def _every(model: Model, plan: Plan) -> list[tuple[Load, ...]]:
    """Return the loads of every mixture of the model, and of every microbatch where those differ."""
    directions = 2 if find_schedule(plan.schedule).placement_kind == "bidir" else 1
    drawn = parse_routing(plan.routing).by_microbatch
    microbatches = range(plan.num_microbatches * directions if drawn else 1)
    layers = [i for i, kind in enumerate(model.layer_kinds) if kind.mlp == "moe"]
    return [loads_of(plan, model, layer, m) for layer in layers for m in microbatches]
