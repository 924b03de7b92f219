"""States: what a rank holds all through the step: parameters, gradients, optimizer states, its software's buffers."""

from collections.abc import Iterable, Sequence

from workloads.chunk import Chunk, Unit, grad_bytes
from workloads.layers import Sizes
from workloads.sharding import Sharding

OPTIMIZER_BYTES = 12.0
"""Bytes of optimizer state a parameter: fp32 master copy, first and second moment of Adam."""
MASTER_BYTES = 4.0
"""Of them, those of the master copy."""


def held_states(sizes: Sizes, chunks: Sequence[Chunk], sharding: Sharding) -> dict[str, float]:
    """Return bytes of parameters, gradients, optimizer states and lasting buffers a rank holds all the time.

    Adam in mixed precision: Rajbhandari et al. 2020, section 3.1. Where the weights themselves are fp32 there is
    no master copy (PyTorch's FSDP) and gradients are fp32 too. Optimizer states in host memory are not counted.
    """
    plan = sizes.plan
    dense = sum(unit.dense_weights for chunk in chunks for unit in chunk.units)
    expert = sum(unit.expert_weights for chunk in chunks for unit in chunk.units)

    def spread(sharded: bool) -> float:
        if not sharded:
            return dense + expert
        return dense / sharding.shard + expert / sharding.expert_shard

    master = has_master(sizes)
    weight = sizes.value if master else 4.0
    kept_whole = plan.zero < 2 or not plan.reduces_each
    held = {
        "parameters": spread(plan.zero == 3) * weight,
        "gradients": spread(not kept_whole) * (grad_bytes(sizes) if master else 4.0),
        "optimizer": spread(plan.zero >= 1) * (OPTIMIZER_BYTES - (0.0 if master else MASTER_BYTES)),
    }
    if "optimizer" in plan.offload:
        held["optimizer"] = 0.0
        held["gradients"] *= float(kept_whole)
    if plan.secondary:
        held["parameters"] += (dense + expert) * sizes.value / plan.secondary
    buffers = _buffers(sizes, chunks, dense + expert)
    return held | ({"buffers": buffers} if buffers else {})


def has_master(sizes: Sizes) -> bool:
    """Whether an fp32 master copy stands beside the weights: ZeRO-1 and 2 shard one, a host holds one."""
    if sizes.value >= MASTER_BYTES:
        return False
    plan = sizes.plan
    return sizes.software.master_weights or plan.zero in (1, 2) or "optimizer" in plan.offload


def _buffers(sizes: Sizes, chunks: Sequence[Chunk], weights: float) -> float:
    """Bytes of lasting buffers: DDP's buckets, bf16 gradients beside their fp32 sums, placeholders of gradients."""
    plan, software = sizes.plan, sizes.software
    found = 0.0
    if plan.zero == 0 and plan.dp > 1 and not software.master_weights and software.bucket_values:
        found += weights * grad_bytes(sizes)
    if software.flat_step and plan.dtype == "bf16":
        found += weights * sizes.value
    if software.placeholders:
        units = {id(unit): unit for chunk in chunks for unit in chunk.units if unit.name != "head"}
        found += _placeholders(sizes, units.values())
    return found


def _placeholders(sizes: Sizes, units: Iterable[Unit]) -> float:
    """Bytes of one weight of each shape."""
    shapes: dict[str, float] = {}
    for unit in units:
        for part in unit.parts:
            one = part.expert_weights / max(sizes.model.num_experts // sizes.plan.ep, 1)
            shapes[part.name] = one or part.weights
    return sum(v for name, v in shapes.items() if name != "embedding") * sizes.value


def step_copies(sizes: Sizes, own: float) -> float:
    """Bytes the optimizer's step takes for a while on a rank that updates ``own`` values: a bucket, flat gradients.

    DeepSpeed's bf16 optimizer keeps its sums flat and reduces them in place: it copies nothing.
    """
    if not sizes.software.flat_step or sizes.plan.dtype == "bf16":
        return 0.0
    bucket = min(sizes.software.bucket_values, own * sizes.plan.dp) * grad_bytes(sizes)
    return bucket + own * (sizes.value + 4.0)
