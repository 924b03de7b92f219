"""On use: ZeRO-3 as DeepSpeed does it: a tensor is gathered when its layer comes, and nothing is computed meanwhile.

This is how software that does not overlap gathers (``overlap_param_gather`` off) runs ``zero`` 3. Hooks fetch what a
module needs before it runs and release it after; a layer that recomputes is a forward and a backward, so what was
released between them is fetched again (DeepSpeed's ``stage3_max_reuse_distance``: a tensor stays if fewer values than
that are used before it is used again). Vectors are not fetched by themselves (``stage3_param_persistence_threshold``).
``gather_lists``: the collectives of 2021 took a list with one tensor a rank, so each made, and copied, as many slices
as there are ranks, from a host that first waited for the device (DeepSpeed's partition_parameters.py before
``_all_gather_base``).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sim.kernels.shapes import Memory
from sim.program import Compute, Op, Sync
from sim.units import GIGA, KILO
from workloads.layers import Part, Sizes
from workloads.plan import Plan
from workloads.software import DEEPSPEED_BUCKET, HOST_OPERATION

REUSE_VALUES = GIGA
"""``stage3_max_reuse_distance``, its documented default."""
PERSISTENT_VALUES = 100 * KILO
"""``stage3_param_persistence_threshold``, its documented default."""
BUCKET_PASSES = 4.0
"""Bytes moved a byte of gradient that is copied into a bucket (``contiguous_gradients``) and divided there."""
ZEROS_AND_COPY = 3.0
"""Bytes moved a gathered byte: filled with zeros, then read and written from NCCL's flat buffer."""
GATHER_OPERATIONS, REDUCE_OPERATIONS = 3, 4
"""Operations of the host a slice: DeepSpeed's narrow (its view and narrow of a gradient), then, in PyTorch's process
group, the select and the copy of that slice of a flat tensor. Counted in both sources with the ZeRO-3 rows of the SC21
paper in view."""
REDUCED = "grads.done"
"""Semaphore: a reduction is done that backward waits for."""


class Tensor(NamedTuple):
    """Parameters gathered together: how many, and whether they are of routed experts."""

    values: float
    expert: bool = False


def gathers_on_use(plan: Plan) -> bool:
    """Whether parameters are sharded and gathered when used, not ahead."""
    return plan.zero == 3 and not plan.switch("overlap_param_gather")


def reduces_at_once(plan: Plan) -> bool:
    """Whether backward waits for each reduction of sharded gradients (under a pipeline they come at the end)."""
    return plan.zero == 3 and plan.pp == 1 and not plan.switch("overlap_grad_reduce")


def tensors(parts: Iterable[Part]) -> list[Tensor]:
    """Return the sharded tensors of a unit, in forward order; vectors count with the matrix after them."""
    found, small = [], 0.0
    for part in parts:
        dense = part.weights - part.expert_weights
        small += dense
        if dense > PERSISTENT_VALUES:
            found.append(Tensor(small))
            small = 0.0
        found += [Tensor(part.expert_weights, True)] if part.expert_weights else []
    return [*found, Tensor(small)] if small else found


def released(found: Sequence[Tensor]) -> list[Tensor]:
    """Return those that a recomputation has used and released before its backward comes, in backward order."""
    kept, gone = 0.0, []
    for tensor in reversed(found):
        if 2.0 * kept >= REUSE_VALUES:
            gone.append(tensor)
        kept += tensor.values
    return gone


def reduced_together(found: Iterable[Tensor]) -> list[Tensor]:
    """Return what is reduced at once: tensors one after another, up to a bucket (``reduce_bucket_size``)."""
    sums: list[Tensor] = []
    for tensor in found:
        last = sums[-1] if sums else None
        joins = last is not None and last.expert == tensor.expert
        if last is not None and joins and last.values + tensor.values <= DEEPSPEED_BUCKET:
            sums[-1] = Tensor(last.values + tensor.values, tensor.expert)
        else:
            sums.append(tensor)
    return sums


def gathered_lists(sizes: Sizes, found: Sequence[Tensor], phase: str) -> tuple[Op, ...]:
    """Return what a gather into lists costs: zeros, a slice a rank made and copied."""
    ranks = _listed(sizes, found)
    if not ranks:
        return ()
    nbytes = ZEROS_AND_COPY * sum(tensor.values for tensor in found) * sizes.value
    return Sync(), _copies(
        sizes.software.launch, nbytes, phase, ranks * len(found) * GATHER_OPERATIONS
    )


def reduced_lists(sizes: Sizes, found: Sequence[Tensor]) -> tuple[Op, ...]:
    """Return the passes over gradients before they are reduced, and what a reduction from lists costs."""
    nbytes = sum(tensor.values for tensor in found) * sizes.grad
    if not nbytes or sizes.software.scan:
        return ()
    bucket = Compute("grads.bucket", Memory("copy", BUCKET_PASSES * nbytes), "B")
    ranks = _listed(sizes, found)
    if not ranks:
        return (bucket,)
    return (
        bucket,
        Sync(),
        _copies(sizes.software.launch, 2.0 * nbytes, "B", ranks * len(found) * REDUCE_OPERATIONS),
    )


def _listed(sizes: Sizes, found: Sequence[Tensor]) -> int:
    """Ranks a list has a slice for (0: no lists)."""
    plan = sizes.plan
    ranks = plan.shard or plan.dp * plan.cp
    used = gathers_on_use(plan) and sizes.software.gather_lists and found and ranks > 1
    return ranks if used else 0


def _copies(launch: float, nbytes: float, phase: str, operations: int) -> Compute:
    """Return copies that keep the host busy longer than the device."""
    work = operations * HOST_OPERATION / launch if launch else 0.0
    return Compute("lists", Memory("copy", nbytes), phase, host_work=max(work - 1.0, 0.0))
