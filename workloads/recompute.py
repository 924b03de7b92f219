"""Recompute: what a unit keeps when it runs again before its backward, and what runs again.

``full``: only its input is kept and all of it runs again (Chen et al. 2016). ``op``: the input, what attention made and
half of what each product made are kept; the rest runs again (torchtitan's per-op option keeps the output of every other
product: half of them, here half of each). A full one may keep what some products made (``recompute_keeps``): those do
not run again.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from sim.kernels.shapes import Gemm, GroupedGemm
from sim.program import Collective, Compute, Op
from workloads.layers import Part, Sizes
from workloads.layers.part import Lanes, repeat
from workloads.plan import Plan

SUMS = ("reduce_scatter", "all_reduce")


def repeated(plan: Plan, position: int) -> str:
    """Return how the layer at a position of a chunk runs again: ``full``, ``op`` or not (``""``)."""
    if plan.recompute == "selective" and "op" in plan.recompute_modules:
        return "op"
    if plan.recompute != "full" or position % plan.recompute_every:
        return ""
    return "full" if not plan.recompute_layers or position < plan.recompute_layers else ""


def repeated_share(plan: Plan, num_layers: int) -> float:
    """Return the share of a model's layers that run again in full."""
    each = num_layers / plan.num_stages
    within = min(plan.recompute_layers / each, 1.0) if plan.recompute_layers else 1.0
    return within / plan.recompute_every


def kept_bytes(sizes: Sizes, parts: Iterable[Part], mode: str) -> float:
    """Bytes a unit that runs again keeps from forward to backward."""
    kept = sizes.local_hidden_bytes
    if mode == "op":
        products = sum((part.kept - part.saved) / 2.0 for part in parts if part.kept > part.saved)
        return kept + products + sum(part.saved for part in parts if part.name == "attn_out")
    keeps = sizes.plan.recompute_keeps
    return kept + sum(part.kept - part.saved for part in parts if part.name in keeps)


def again(parts: Iterable[Part], mode: str, keeps: Collection[str] = ()) -> Iterator[Lanes]:
    """Yield what runs again before a unit's backward; ``keeps``: parts whose product does not."""
    for part in parts:
        if mode != "op":
            whole = repeat(part.forward)
            yield (
                whole
                if part.name not in keeps
                else {
                    stream: tuple(op for op in ops if not _multiplies(op))
                    for stream, ops in whole.items()
                }
            )
        elif part.name != "attention":
            yield {
                stream: tuple(_halved(op) for op in ops if not _kept(op))
                for stream, ops in repeat(part.forward).items()
            }


def _kept(op: Op) -> bool:
    """Whether an op made what is kept: sums over tensor parallelism nobody else waits for."""
    return isinstance(op, Collective) and op.kind in SUMS and not (op.waits or op.signals)


def _multiplies(op: Op) -> bool:
    return isinstance(op, Compute) and isinstance(op.kernel, Gemm | GroupedGemm)


def _halved(op: Op) -> Op:
    """Return an op that makes half of what a product made."""
    if isinstance(op, Compute) and isinstance(op.kernel, Gemm | GroupedGemm):
        return replace(op, kernel=replace(op.kernel, n=max(op.kernel.n // 2, 1)))
    return op
