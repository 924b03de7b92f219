"""Data parallelism: who shares states with whom, what is gathered and reduced when, the optimizer's step.

``zero`` 0 all-reduces gradients; 1 and 2 reduce-scatter them and all-gather the updated parameters; 3 keeps parameters
sharded and gathers each unit before use (Rajbhandari et al. 2020). ``shard`` limits the sharding to groups of that
size; gradients are then reduced once more among replicas (HSDP).
"""

from collections.abc import Iterator, Sequence

from sim.kernels.shapes import Memory
from sim.program import Action, Allocate, Collective, Compute, Free, Op, Segment, Signal, Sync, Wait
from workloads.chunk import CREDIT, GATHERED, GRADS, Chunk, Unit, grad_bytes, unit_bytes
from workloads.layers import Sizes
from workloads.offload import ADAM_TRAFFIC, host_step
from workloads.on_use import (
    REDUCED,
    Tensor,
    gathers_on_use,
    reduced_together,
    reduces_at_once,
    released,
)
from workloads.sharding import Sharding
from workloads.states import OPTIMIZER_BYTES, held_states, step_copies

__all__ = [
    "OPTIMIZER_BYTES", "Sharding", "gather_segment", "held_states", "optimizer_segment", "reduce_ops", "reduce_segment",
]  # fmt: skip


def gathers(sizes: Sizes, sharding: Sharding, unit: Unit, phase: str) -> Iterator[Op]:
    """Yield the all-gathers of one unit's parameters."""
    if gathers_on_use(sizes.plan):
        parts = unit.tensors
    else:
        parts = [Tensor(unit.dense_weights), Tensor(unit.expert_weights, True)]
    yield from _gathers(sizes, sharding, unit.name, parts, phase)


def _gathers(
    sizes: Sizes, sharding: Sharding, name: str, parts: Sequence[Tensor], phase: str
) -> Iterator[Op]:
    again = phase == "B"
    found = [
        Collective(
            f"params.all_gather.{name}",
            "all_gather",
            sharding.axis(e, again=again),
            w * sizes.value,
            phase,
        )
        for w, e in parts
        if w and _degree(sharding, e) > 1
    ]
    yield from found


def _degree(sharding: Sharding, expert: bool) -> int:
    return (
        sharding.expert_degree
        if expert and sharding.plan.ep * sharding.plan.etp > 1
        else sharding.degree
    )


def gather_segment(
    sizes: Sizes, sharding: Sharding, chunk: Chunk, action: Action, *, backward: bool, keep: bool
) -> Segment:
    """Return the gathers of a chunk's units in the order a pass needs them, each after a credit.

    ``keep``: gathered parameters stay (their memory was counted once).
    """
    ops: list[Op] = []
    units = reversed(chunk.units) if backward else chunk.units
    for unit in units:
        ops.append(Wait((CREDIT,)))
        if not keep and sizes.plan.zero == 3:
            ops.append(Allocate("gathered", unit_bytes(sizes, unit)))
        for part in _pieces(sizes, chunk, unit, backward=backward):
            ops.extend(gathers(sizes, sharding, part, "B" if backward else "F"))
            ops.append(Signal((GATHERED,)))
        if backward and chunk.fetches_again(chunk.units.index(unit)):
            ops.append(Wait((CREDIT,)))
            ops.extend(_gathers(sizes, sharding, unit.name, released(unit.tensors), "B"))
            ops.append(Signal((GATHERED,)))
    return Segment(action, tuple(ops))


def _pieces(sizes: Sizes, chunk: Chunk, unit: Unit, *, backward: bool) -> tuple[Unit, ...]:
    """Return what is gathered together: the unit, or (``scan``) its attention and its MLP, as a pass needs them."""
    if not sizes.software.scan or not unit.half:
        return (unit,)
    halves = Unit(unit.name, unit.parts[: unit.half]), Unit(unit.name, unit.parts[unit.half :])
    again = bool(chunk.repeated(chunk.units.index(unit)))
    return halves[::-1] if backward and not again else halves


def reduce_ops(sizes: Sizes, sharding: Sharding, chunk: Chunk, bucket: Sequence[int]) -> list[Op]:
    """Return the reductions of one bucket of gradients."""
    plan = sizes.plan
    units = [chunk.units[i] for i in bucket]
    parts = [
        Tensor(sum(unit.dense_weights for unit in units)),
        Tensor(sum(unit.expert_weights for unit in units), True),
    ]
    if reduces_at_once(plan):
        parts = reduced_together(t for unit in units for t in reversed(unit.tensors))
    kind = "all_reduce" if plan.zero == 0 else "reduce_scatter"
    ops: list[Op] = []
    for values, is_expert in parts:
        nbytes = values * grad_bytes(sizes)
        if not nbytes or _degree(sharding, is_expert) == 1:
            continue
        axis = sharding.axis(is_expert)
        ops.append(Collective(f"grads.{kind}", kind, axis, nbytes, "B"))
        if sharding.shard < sharding.degree and not is_expert:
            replicas = nbytes / sharding.shard
            ops.append(Collective("grads.all_reduce", "all_reduce", "dp.replica", replicas, "B"))
    return ops


def reduce_segment(sizes: Sizes, sharding: Sharding, chunk: Chunk, action: Action) -> Segment:
    """Return the reductions of a chunk, each bucket when its gradients are ready."""
    ops: list[Op] = []
    for bucket in chunk.buckets:
        held = sum(chunk.fresh_gradients(index) for index in bucket)
        wide = held / sizes.value * grad_bytes(sizes) if sizes.value < grad_bytes(sizes) else 0.0
        ops.append(Wait((GRADS,)))
        ops.append(Allocate("buffers", wide))
        ops.extend(reduce_ops(sizes, sharding, chunk, bucket))
        ops.extend((Free("buffers", wide), Free("gradients", held)))
        also = (REDUCED,) if reduces_at_once(sizes.plan) else ()
        ops.append(Signal(("grads.reduced", *also)))
    return Segment(action, tuple(ops))


def optimizer_segment(
    sizes: Sizes,
    sharding: Sharding,
    chunks: Sequence[Chunk],
    *,
    late: bool,
    num_reductions: int,
    tied: bool,
) -> Segment:
    """Return the end of the step: late reductions, gradient norm, Adam, late gathers.

    ``late``: gradients are reduced here, not during backward; ``num_reductions``: those to wait for otherwise;
    ``tied``: this rank holds one of the two copies of a tied embedding.
    """
    plan = sizes.plan
    ops: list[Op] = [Wait(("grads.reduced",)) for _ in range(num_reductions)]
    if late:
        for chunk in chunks:
            ops += reduce_ops(sizes, sharding, chunk, range(len(chunk.units)))
    if tied:
        nbytes = _embedding_weights(sizes) * grad_bytes(sizes)
        ops.append(Collective("embedding.grads", "all_reduce", "embedding", nbytes, "B"))
    dense = sum(unit.dense_weights for chunk in chunks for unit in chunk.units)
    expert = sum(unit.expert_weights for chunk in chunks for unit in chunk.units)
    own = dense + expert
    if plan.zero:
        own = dense / sharding.shard + expert / sharding.expert_shard
    value, grad = sizes.value, grad_bytes(sizes)
    passes = 1.0 if sizes.software.fused_optimizer else 2.0
    copies = step_copies(sizes, own)
    ops.append(Allocate("buffers", copies))
    ops.append(Compute("grad_norm", Memory("norm", own * grad), "O"))
    if plan.tp * plan.pp > 1:
        ops.append(Collective("grad_norm.all_reduce", "all_reduce", "model", 4.0, "O"))
    ops.append(Sync())
    if "optimizer" in plan.offload:
        ops += host_step(own, value, grad)
    else:
        step = Memory("optimizer", own * (grad + ADAM_TRAFFIC + value) * passes)
        ops.append(Compute("adam", step, "O"))
    ops.append(Free("buffers", copies))
    if plan.zero in (1, 2) and not plan.switch("overlap_param_gather"):
        for chunk in chunks:
            for unit in chunk.units:
                ops.extend(gathers(sizes, sharding, unit, "O"))
    return Segment(Action("optimizer"), tuple(ops))


def _embedding_weights(sizes: Sizes) -> float:
    return float(-(-sizes.model.vocab_size // sizes.plan.tp) * sizes.model.hidden_size)
