"""Travel of tokens to experts and back: permute, all-to-all over ep, slices over etp.

How tokens travel is the plan's ``dispatcher``. ``alltoall``: every copy of a token is a row of one library all-to-all,
sorted by destination before and by expert after. ``allgather``: every rank gets all tokens and keeps those
its experts want. ``deepep``: an expert-parallel kernel sends a token to each server that needs it once
(deepseek-ai/DeepEP).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from sim.kernels.shapes import DTYPE_BYTES, Gemm
from sim.program import Collective, Compute, Op, Spread, Sync
from workloads.layers.part import Part, lanes
from workloads.layers.sizes import Sizes

ROUTING_KERNELS = 20
"""Kernels that Megatron-Core's token dispatcher launches around each step of routing, counted in its source (masks,
cumulative sums, sorts, gathers); each is short, so their cost is the host's."""
XLA_ROWS_READ = 2.0
"""Rows read for one that XLA gathers: its tiles hold rows of 16-bit values in pairs (T(8,128)(2,1), XLA's documentation
of tiled layouts)."""
SCALE_BLOCK = 128
"""Values that share one fp32 scale when tokens travel in 8 bits (DeepSeek-V3 report, section 3.3.2)."""


@dataclass(frozen=True)
class Travel:
    """Sizes of a trip: ``rows`` token copies a rank sends (every rank alike), ``rows_here`` those its experts get."""

    sizes: Sizes

    @cached_property
    def width(self) -> int:
        """Values of a token where it travels."""
        return self.sizes.model.moe_latent_size or self.sizes.model.hidden_size

    @cached_property
    def groups(self) -> int:
        """Experts on this rank."""
        return self.sizes.model.num_experts // self.sizes.plan.ep

    @cached_property
    def tokens(self) -> float:
        """Tokens this rank routes: of a sequence that tensor parallelism holds whole, its part."""
        return self.sizes.tokens / self.sizes.plan.tp

    @cached_property
    def rows(self) -> float:
        """Token copies sent: experts a token, those that experts drop left out, and padding."""
        rows, plan, load = (
            self.tokens * self.sizes.model.experts_per_token,
            self.sizes.plan,
            self.sizes.load,
        )
        if plan.padded:
            return rows * plan.capacity
        kept = min(plan.capacity, 1.0) if plan.capacity else 1.0
        return rows * (load.kept if load else kept)

    @cached_property
    def rows_here(self) -> float:
        """Token copies the experts of this rank get."""
        return self.rows * (self.sizes.load.here if self.sizes.load else 1.0)

    @cached_property
    def largest(self) -> float:
        """Rows of the fullest expert here."""
        mean = self.rows / self.groups
        return mean * (self.sizes.load.largest if self.sizes.load else 1.0)

    @cached_property
    def value(self) -> float:
        """Bytes of a value on the way out: of the activations, or of ``dispatch_dtype`` with its scales."""
        dtype = self.sizes.plan.dispatch_dtype
        if not dtype:
            return self.sizes.value
        return DTYPE_BYTES[dtype] + DTYPE_BYTES["fp32"] / SCALE_BLOCK

    def spread(self, *, back: bool) -> Spread:
        """Return who gets how much."""
        load, model = self.sizes.load, self.sizes.model
        return Spread(
            fanout=model.experts_per_token,
            limit=model.routed_groups_per_token / model.num_routing_groups
            if model.num_routing_groups
            else 1.0,
            shares=load.shares if load else (),
            back=back,
        )


def travel(trip: Travel, name: str) -> Part:
    """Return the way out (``dispatch``) or back (``combine``), each with the other as its backward."""
    way = WAYS[trip.sizes.plan.choice("dispatcher")]
    outward = name == "dispatch"
    counted = outward and trip.sizes.software.expert_counts and not trip.sizes.plan.padded
    return Part(
        name=name,
        forward=lanes(*((Sync(),) if counted else ()), *way(trip, name, "F", outward)),
        backward=lanes(*way(trip, f"{name}.bwd", "B", not outward)),
        saved=8.0 * trip.rows if outward else 0.0,
    )


def _permute(trip: Travel, name: str, nbytes: float, phase: str) -> Op:
    return small(trip.sizes, trip.sizes.elementwise(name, "permute", nbytes, phase, passes=2.0))


def small(sizes: Sizes, kernel: Compute) -> Compute:
    """Count the small kernels (masks, sorts, sums over experts) that come with a step of routing."""
    return replace(kernel, launches=ROUTING_KERNELS) if sizes.software.grouped_loop else kernel


def _moves(trip: Travel, phase: str, outward: bool) -> float:
    """Times a permutation moves the copies of all tokens.

    A permuting kernel reads a token and writes its copies, or the reverse with their weighted sum. XLA (``scan``) runs
    two: a gather that reads and writes every copy (`jnp.take` by an argsort), and the sum or spread; the backward of a
    weighted sum reads the copies once more for the gradient of the weights (MaxText's permute and unpermute).
    """
    once = 1.0 + 1.0 / trip.sizes.model.experts_per_token
    if not trip.sizes.software.scan:
        return once
    gather = XLA_ROWS_READ + 1.0
    if outward:
        return gather if phase == "F" else 1.0 + once + gather
    return gather + once


def _masked(trip: Travel, name: str, phase: str, outward: bool) -> list[Op]:
    """Return the products that fill experts of a fixed capacity: a mask (tokens, places) of each sequence times values.

    The backward of the way back is also the gradient of the mask. XLA's form with dropped tokens (GShard, 2006.16668,
    section 3.2; MaxText's dense_matmul).
    """
    sizes = trip.sizes
    places, tokens = trip.rows / sizes.plan.microbatch, trip.tokens / sizes.plan.microbatch
    masks = 2 if outward and phase == "B" else 1
    kernel = Gemm(round(places), trip.width, round(tokens), sizes.plan.microbatch * masks)
    return [Compute(f"{name}.mask", kernel, phase)]


def _slices(trip: Travel, name: str, phase: str, outward: bool) -> list[Op]:
    """Bring the tokens of all slices of an expert together, or sum their outputs."""
    plan = trip.sizes.plan
    if plan.etp == 1:
        return []
    kind = "all_gather" if outward else "reduce_scatter"
    nbytes = trip.rows_here * trip.width * trip.sizes.value * plan.etp
    return [Collective(f"{name}.{kind}", kind, "etp", nbytes, phase)]


def _whole(trip: Travel, name: str, phase: str, outward: bool) -> list[Op]:
    """Make whole a sequence of which each tensor-parallel rank routed a part."""
    sizes = trip.sizes
    if outward or sizes.plan.sequence_parallel:
        return []
    nbytes = sizes.tokens * trip.width * sizes.value
    return list(sizes.tp_collective(f"{name}.tokens", "all_gather", nbytes, phase))


def _all_to_all(trip: Travel, name: str, phase: str, outward: bool) -> list[Op]:
    sizes, plan = trip.sizes, trip.sizes.plan
    sent, here = trip.rows * trip.width, trip.rows_here * trip.width
    value = trip.value if outward else sizes.value
    if sizes.software.scan and plan.padded:
        first = _masked(trip, name, phase, outward)
    else:
        nbytes = sent * _moves(trip, phase, outward) * value
        first = [_permute(trip, f"{name}.permute", nbytes, phase)]
    moved: list[Op] = []
    if plan.ep > 1:
        spread = trip.spread(back=not outward) if sizes.load else None
        moved.append(
            Collective(f"{name}.all_to_all", "all_to_all", "ep", sent * value, phase, spread=spread)
        )
    sort = (
        [_permute(trip, f"{name}.sort", 2 * here * value, phase)]
        if trip.groups > 1 and plan.ep > 1
        else []
    )
    slices = _slices(trip, name, phase, outward)
    if outward:
        return [*first, *moved, *slices, *sort]
    return [*sort, *slices, *moved, *first, *_whole(trip, name, phase, outward)]


def _kernel(trip: Travel, name: str, phase: str, outward: bool) -> list[Op]:
    sizes, plan = trip.sizes, trip.sizes.plan
    value = trip.value if outward else sizes.value
    here = trip.rows_here * trip.width
    cast = (
        sizes.cast(f"{name}.cast", trip.tokens * trip.width, phase) if value < sizes.value else ()
    )
    moved: list[Op] = []
    if plan.ep > 1:
        nbytes = trip.rows * trip.width * value
        moved.append(
            Collective(
                f"{name}.all_to_all", "all_to_all", "ep", nbytes, phase, "ep",
                spread=trip.spread(back=not outward),
            )
        )  # fmt: skip
    spread_out = _permute(trip, f"{name}.permute", 2 * here * value, phase)
    slices = _slices(trip, name, phase, outward)
    if outward:
        return [*cast, *moved, *slices, spread_out]
    return [spread_out, *slices, *moved, *_whole(trip, name, phase, outward)]


def _all_gather(trip: Travel, name: str, phase: str, outward: bool) -> list[Op]:
    sizes, plan = trip.sizes, trip.sizes.plan
    value = trip.value if outward else sizes.value
    here = trip.rows_here * trip.width
    moved: list[Op] = []
    if plan.ep > 1:
        kind = "all_gather" if outward else "reduce_scatter"
        nbytes = trip.tokens * plan.ep * trip.width * value
        moved.append(Collective(f"{name}.{kind}", kind, "ep", nbytes, phase))
    pick = _permute(trip, f"{name}.permute", 2 * here * value, phase)
    slices = _slices(trip, name, phase, outward)
    if outward:
        return [*moved, *slices, pick]
    return [pick, *slices, *moved, *_whole(trip, name, phase, outward)]


WAYS: dict[str, Callable[[Travel, str, str, bool], list[Op]]] = {
    "alltoall": _all_to_all,
    "allgather": _all_gather,
    "deepep": _kernel,
}
"""Ways to travel, by name of the dispatcher."""
