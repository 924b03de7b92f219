"""Context parallelism: how the core of attention spans the ranks that share a sequence.

``all_gather`` gathers keys and values first (Llama 3 report, section 3.3.2); ``ring`` passes them round while it
computes (Liu et al. 2023, arXiv:2310.01889); ``ulysses`` swaps sequence for heads by all-to-all (Jacobs et al. 2023,
arXiv:2309.14509); ``ulysses+ring`` swaps within neighbours and passes keys round between those (USP, arXiv:2405.07719;
``a2a+p2p`` in Megatron-Core). Which rank has how many scores: `workloads.packing`.
"""

from collections.abc import Callable

import numpy as np

from sim.errors import PlanError
from sim.program import Collective, Compute, Op, Signal, Wait
from workloads.layers.core import kernel, kv_bytes, qkv_bytes, statistics_bytes
from workloads.layers.part import Lanes, Part, lanes
from workloads.layers.sizes import Sizes
from workloads.packing import Spread, step_scores
from workloads.plan import Plan

WHOLE, INNER, OUTER = "cp", "cp.inner", "cp.outer"
"""Axes: all ranks that share a sequence; those that swap heads; those that pass keys round between such groups."""


def spread_of(plan: Plan) -> Spread:
    """Return how a plan's sequences lie over the ranks of a ring."""
    return Spread(
        plan.seq_len, plan.ring_ranks, plan.context_balance, plan.microbatch, plan.documents, plan.document_seed
    )  # fmt: skip


def _scores(sizes: Sizes, window: int) -> np.ndarray:
    """Return the scores a head and sequence of this rank in each step of a ring; where all are alike, their mean."""
    found = step_scores(spread_of(sizes.plan), window, sizes.draw)
    if sizes.plan.uneven_context and sizes.context_place >= 0:
        return np.asarray(found[sizes.context_place])
    return np.asarray(found.mean(axis=0))


def _gather_span(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    plan = sizes.plan
    scores = float(_scores(sizes, window).sum())
    nbytes = kv_bytes(sizes, kv_heads) * plan.cp

    def core(name: str, direction: str, phase: str) -> Compute:
        local = plan.seq_len // plan.cp
        made = kernel(sizes, heads, kv_heads, window, direction, seq_q=local, scores=scores)
        return Compute(name, made, phase)

    return Part(
        name="attention",
        forward=lanes(
            Collective("kv.all_gather", "all_gather", WHOLE, nbytes, "F"),
            core("attention", "fwd", "F"),
        ),
        backward=lanes(
            Collective("kv.all_gather", "all_gather", WHOLE, nbytes, "B"),
            core("attention.bwd", "bwd", "B"),
            Collective("kv.reduce_scatter", "reduce_scatter", WHOLE, nbytes, "B"),
        ),
        saved=qkv_bytes(sizes, heads, kv_heads) + statistics_bytes(sizes, heads),
        recomputed=lanes(core("attention.again", "fwd", "R")),
    )


def _ring_span(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    nbytes = kv_bytes(sizes, kv_heads)

    def rounds(name: str, direction: str, phase: str, tensors: float) -> Lanes:
        computed, shifts = _rounds(sizes, (heads, kv_heads, window), name, direction, phase)
        moved = _shifts(name, WHOLE, nbytes * tensors, phase, shifts)
        return lanes(*computed, cp=moved)

    return Part(
        name="attention",
        forward=rounds("attention", "fwd", "F", 1.0),
        backward=rounds("attention.bwd", "bwd", "B", 2.0),
        saved=qkv_bytes(sizes, heads, kv_heads) + statistics_bytes(sizes, heads),
        recomputed=rounds("attention.again", "fwd", "R", 1.0),
    )


def _rounds(
    sizes: Sizes, shape: tuple[int, int, int], name: str, direction: str, phase: str
) -> tuple[list[Op], int]:
    """Return the rounds of a ring on the compute stream, and how many shifts run beside them.

    A shift starts with the round before it. A round of keys that all come after a rank's queries computes nothing (and
    every rank has as many ops); the rank waits for the others'. Only the first has tiles on the diagonal.
    """
    heads, kv_heads, window = shape
    scores = _scores(sizes, window)
    local = sizes.plan.seq_len // len(scores)
    found: list[Op] = []
    for step, number in enumerate(scores.tolist()):
        last = step == len(scores) - 1
        starts = () if last else ("cp.go",)
        if number > 0.0:
            made = kernel(
                sizes, heads, kv_heads, window, direction, seq_q=local, seq_kv=local, scores=number,
                diagonal=step == 0 or window > 0,
            )  # fmt: skip
            found.append(Compute(f"{name}.{step}", made, phase, starts=starts))
        else:
            found.append(Signal(starts))
        if not last:
            found.append(Wait(("cp.came",)))
    return found, len(scores) - 1


def _shifts(name: str, axis: str, nbytes: float, phase: str, count: int) -> list[Op]:
    """Return the shifts of keys and values to the next rank; backward with their gradients."""
    return [
        Collective(
            f"{name}.shift.{i}", "send_recv", axis, nbytes, phase, waits=("cp.go",), signals=("cp.came",)
        )
        for i in range(count)
    ]  # fmt: skip


def _heads(sizes: Sizes, heads: int, kv_heads: int, degree: int) -> tuple[int, int, int]:
    """Return query and key heads of a rank after a swap over ``degree`` ranks, and key heads before it.

    Where there are fewer key heads than ranks, each is repeated first (``kv-head-repeat-before-uly-alltoall`` of
    MindSpeed; DeepSpeed-Ulysses). Raises `PlanError`.
    """
    plan = sizes.plan
    word = "cp" if plan.context == "ulysses" else "context_inner"
    if heads % degree:
        raise PlanError(
            f"context={plan.context!r} with {word}={degree}: {word} must divide the heads of a rank, num_heads / tp = "
            f"{heads}; lower {word} or tp, or use context='ring'"
        )
    if kv_heads % degree and degree % kv_heads:
        raise PlanError(
            f"context={plan.context!r} with {word}={degree}: {word} must divide, or be divided by, the key heads of a "
            f"rank, num_kv_heads / tp = {kv_heads}; change {word}, or use context='ring'"
        )
    sent = max(kv_heads, degree)
    return heads // degree, sent // degree, sent


def _ulysses_span(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    *spread, sent = _heads(sizes, heads, kv_heads, sizes.plan.cp)
    inside = qkv_bytes(sizes, heads, sent)
    outside = sizes.tokens * heads * sizes.model.v_dim * sizes.value

    def swapped(name: str, direction: str, phase: str, first: float, second: float) -> Lanes:
        made = kernel(sizes, spread[0], spread[1], window, direction)
        return lanes(
            Collective(f"{name}.all_to_all.in", "all_to_all", WHOLE, first, phase),
            Compute(name, made, phase),
            Collective(f"{name}.all_to_all.out", "all_to_all", WHOLE, second, phase),
        )

    return Part(
        name="attention",
        forward=swapped("attention", "fwd", "F", inside, outside),
        backward=swapped("attention.bwd", "bwd", "B", outside, inside),
        saved=inside + statistics_bytes(sizes, heads),
        recomputed=swapped("attention.again", "fwd", "R", inside, outside),
    )


def _mixed_span(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    inner = sizes.plan.context_inner
    few, few_kv, sent = _heads(sizes, heads, kv_heads, inner)
    inside = qkv_bytes(sizes, heads, sent)
    outside = sizes.tokens * heads * sizes.model.v_dim * sizes.value
    held = kv_bytes(sizes, few_kv) * inner

    def swapped(name: str, direction: str, phase: str, first: float, second: float) -> Lanes:
        computed, shifts = _rounds(sizes, (few, few_kv, window), name, direction, phase)
        tensors = 1.0 if direction == "fwd" else 2.0
        return lanes(
            Collective(f"{name}.all_to_all.in", "all_to_all", INNER, first, phase),
            *computed,
            Collective(f"{name}.all_to_all.out", "all_to_all", INNER, second, phase),
            cp=_shifts(name, OUTER, held * tensors, phase, shifts),
        )

    return Part(
        name="attention",
        forward=swapped("attention", "fwd", "F", inside, outside),
        backward=swapped("attention.bwd", "bwd", "B", outside, inside),
        saved=inside + statistics_bytes(sizes, heads),
        recomputed=swapped("attention.again", "fwd", "R", inside, outside),
    )


SPANS: dict[str, Callable[[Sizes, int, int, int], Part]] = {
    "all_gather": _gather_span,
    "ring": _ring_span,
    "ulysses": _ulysses_span,
    "ulysses+ring": _mixed_span,
}
"""Ways to span ``cp``, by the plan's ``context``."""
