"""Chunk: the ops of one chunk's forward and backward on one rank: its units, layer by layer.

A unit (embedding, a layer, the head) is what data parallelism gathers, reduces and what recomputation repeats.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from sim.program import Allocate, Free, Op, Signal, Wait
from sim.units import MEGA
from workloads import on_use
from workloads.expert_loads import loads_of
from workloads.layers import Part, Sizes, layer_parts, with_load
from workloads.layers.ends import embedding, head
from workloads.layers.mtp import mtp_parts
from workloads.layers.part import COMPUTE, Lanes, join, lanes
from workloads.layers.precision import of_layer
from workloads.layout import StageContent
from workloads.model import LayerKind
from workloads.offload import AHEAD, BACK_AGAIN, fetch, store
from workloads.offload import CREDIT as BACK_CREDIT
from workloads.packing import DRAWS
from workloads.recompute import again, kept_bytes, repeated
from workloads.routing import UNIFORM
from workloads.software import DEEPSPEED_BUCKET

GATHERED, CREDIT, GRADS = "params.gathered", "params.credit", "grads.ready"


@dataclass(frozen=True)
class Unit:
    """A unit of a chunk: its parts, and bytes of its parameters on this rank (``dense`` and of routed experts)."""

    name: str
    parts: tuple[Part, ...]

    @cached_property
    def dense_weights(self) -> float:
        """Parameters but those of routed experts."""
        return sum(p.weights - p.expert_weights for p in self.parts)

    @cached_property
    def tensors(self) -> list[on_use.Tensor]:
        """Tensors that are sharded one by one, in forward order (see `workloads.on_use`)."""
        return on_use.tensors(self.parts)

    @cached_property
    def half(self) -> int:
        """Parts before the MLP's (0: it has no two halves)."""
        return next((i for i, p in enumerate(self.parts) if p.name == "mlp_norm"), 0)

    @cached_property
    def expert_weights(self) -> float:
        """Parameters of routed experts."""
        return sum(p.expert_weights for p in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How data parallelism surrounds a pass of a chunk.

    ``gather``: each unit waits for its parameters; ``release``: and drops them after; ``reduce``: each bucket's
    gradients are handed over when its last unit is done.
    """

    gather: bool = False
    release: bool = False
    reduce: bool = False


Known = dict[tuple[LayerKind, int, int, str], tuple[Part, ...]]
"""Parts of a layer by its kind, the place on cp and the packing of documents, where those make a difference."""


@dataclass(frozen=True)
class Chunk:
    """All passes of one chunk (a `StageContent`) on one rank.

    Where tokens go to experts unevenly: ``expert_rank`` its place in the expert-parallel group, and ``microbatch``
    (they may be routed differently, or hold other documents). ``known`` keeps parts that are the same for every chunk
    of the model.
    """

    sizes: Sizes
    content: StageContent
    expert_rank: int = 0
    microbatch: int = 0
    known: Known = field(default_factory=dict, compare=False)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Embedding, layers, head: those the stage holds."""
        found = [Unit("embedding", (embedding(self.sizes),))] if self.content.embedding else []
        found += [
            Unit("layer", self._layer(kind, self.content.first + index))
            for index, kind in enumerate(self.content.layers)
        ]
        shared = self.content.embedding and self.sizes.model.tied_embeddings
        if self.content.head:
            found.append(Unit("head", tuple(head(self.sizes, shared=shared))))
        if self.content.mtp:
            extra = Unit("mtp", tuple(mtp_parts(self._drawn, layer_parts)))
            found += [extra] * self.content.mtp
        return tuple(found)

    def _layer(self, kind: LayerKind, number: int) -> tuple[Part, ...]:
        """Return the parts of a layer; those of experts by how many tokens come here."""
        sizes = of_layer(self._drawn, number)
        key = (kind, sizes.context_place, sizes.draw, sizes.plan.dtype)
        if key not in self.known:
            self.known[key] = tuple(layer_parts(sizes, kind))
        if sizes.plan.routing == UNIFORM or kind.mlp != "moe":
            return self.known[key]
        loads = loads_of(sizes.plan, sizes.model, number, self.microbatch)
        return with_load(self.known[key], replace(sizes, load=loads[self.expert_rank]), kind)

    @property
    def alike(self) -> "Chunk":
        """The same chunk as every rank would hold it, were their work the same."""
        sizes = replace(self.sizes, context_place=-1)
        return replace(self, sizes=sizes, expert_rank=0, microbatch=0)

    @cached_property
    def _drawn(self) -> Sizes:
        """Sizes with the packing of documents this microbatch has."""
        if not self.sizes.plan.draws_documents:
            return self.sizes
        return replace(self.sizes, draw=self.microbatch % DRAWS)

    @cached_property
    def buckets(self) -> tuple[tuple[int, ...], ...]:
        """Units whose gradients are reduced together, in backward order."""
        limit = bucket_bytes(self.sizes)
        found: list[tuple[int, ...]] = []
        current: list[int] = []
        held = 0.0
        for index in reversed(range(len(self.units))):
            unit = self.units[index]
            current.append(index)
            held += (unit.dense_weights + unit.expert_weights) * grad_bytes(self.sizes)
            if held >= limit:
                found.append(tuple(current))
                current, held = [], 0.0
        if current:
            found.append(tuple(current))
        return tuple(found)

    def recomputes(self, index: int) -> bool:
        """Whether a unit runs again before its backward, all of it or its ops."""
        return bool(self.repeated(index))

    def repeated(self, index: int) -> str:
        """How a unit runs again before its backward: see `workloads.recompute`."""
        if self.units[index].name != "layer":
            return ""
        return repeated(self.sizes.plan, index - int(self.content.embedding))

    @cached_property
    def offloaded(self) -> tuple[int, ...]:
        """Units whose activations wait on the host, in forward order: layers but the chunk's last."""
        if "activations" not in self.sizes.plan.offload:
            return ()
        return tuple(i for i, unit in enumerate(self.units) if unit.name == "layer")[:-1]

    def saved(self, index: int) -> float:
        """Bytes a unit keeps from forward to backward."""
        unit = self.units[index]
        if mode := self.repeated(index):
            return kept_bytes(self.sizes, unit.parts, mode) + self._sent(index)
        return self._all_saved(unit) + self._sent(index)

    def _sent(self, index: int) -> float:
        """Bytes of the output that a stage keeps after sending it on, where the software does."""
        plan, last = self.sizes.plan, index == len(self.units) - 1
        keeps = self.sizes.software.keeps_outputs and plan.pp > 1 and not self.content.head
        return self.sizes.local_hidden_bytes if keeps and last else 0.0

    def fresh_gradients(self, index: int) -> float:
        """Bytes of a unit's gradients between its backward and their reduction, unless they accumulate unsharded."""
        plan = self.sizes.plan
        if plan.zero < 2 or not plan.reduces_each:
            return 0.0
        unit = self.units[index]
        return (unit.dense_weights + unit.expert_weights) * self.sizes.value

    def _all_saved(self, unit: Unit) -> float:
        selective = self.sizes.plan.recompute == "selective"
        return sum(
            p.saved - p.remade - (p.recomputed_bytes if selective else 0.0) for p in unit.parts
        )

    def forward(self, variant: Variant) -> Lanes:
        """Return the ops of the forward pass, by stream."""
        found: list[Lanes] = []
        for index, unit in enumerate(self.units):
            saved = self.saved(index)
            if variant.gather:
                found.append(
                    lanes(Wait((GATHERED,)), *on_use.gathered_lists(self.sizes, unit.tensors, "F"))
                )
            found.append(lanes(Allocate("activations", saved)))
            half = unit.half if variant.gather and self.sizes.software.scan else 0
            found.extend(part.forward for part in unit.parts[:half])
            found.append(lanes(*(Wait((GATHERED,)) for _ in range(min(half, 1)))))
            found.extend(part.forward for part in unit.parts[half:])
            if index in self.offloaded:
                found.append(store(saved))
            if variant.gather:
                found.append(lanes(*self._drop(unit, variant)))
        return join(found)

    def backward(self, variant: Variant) -> Lanes:
        """Return the ops of the fused backward pass, by stream."""
        found: list[Lanes] = []
        last_of_bucket = {bucket[-1]: bucket for bucket in self.buckets}
        waits = variant.reduce and on_use.reduces_at_once(self.sizes.plan)
        for index in reversed(range(len(self.units))):
            unit = self.units[index]
            found.extend(self._ready(index, variant))
            half = unit.half if variant.gather and self.sizes.software.scan else 0
            second = len(unit.parts) if self.repeated(index) else half
            for number, part in reversed(list(enumerate(unit.parts, 1))):
                if half and number == second:
                    found.append(lanes(Wait((GATHERED,))))
                found.extend(self._recomputed(part, index))
                found.append(part.both)
            found.append(lanes(*self._temporary(unit, Free), *self._free_all(index)))
            if variant.gather and not waits:
                found.append(lanes(*self._drop(unit, variant)))
            if variant.reduce:
                found.append(lanes(Allocate("gradients", self.fresh_gradients(index))))
            if variant.reduce and index in last_of_bucket:
                found.append(lanes(*self._hand_over(unit)))
            if variant.gather and waits:
                found.append(lanes(*self._drop(unit, variant)))
        return join((*found, lanes(*self._widened())))

    def _ready(self, index: int, variant: Variant) -> Iterator[Lanes]:
        """Yield what a unit's backward needs first: parameters, what was kept elsewhere or is made again, room."""
        unit = self.units[index]
        if variant.gather:
            gathered = on_use.gathered_lists(self.sizes, unit.tensors, "B")
            yield lanes(Wait((GATHERED,)), *gathered)
        yield from self._back(index)
        yield from self._again(index)
        if variant.gather and self.fetches_again(index):
            yield self._fetch_again(unit)
        yield lanes(*self._temporary(unit, Allocate))

    def input_gradient(self, variant: Variant) -> Lanes:
        """Return the ops of the input-gradient pass of a split backward."""
        found: list[Lanes] = []
        for index in reversed(range(len(self.units))):
            unit = self.units[index]
            kept = sum(p.kept for p in unit.parts)
            found.extend(self._ready(index, variant))
            for part in reversed(unit.parts):
                found.extend(self._recomputed(part, index))
                found.append(part.backward)
            found.append(lanes(Allocate("activations", kept), *self._temporary(unit, Free)))
            found.append(lanes(*self._free_all(index)))
            if variant.gather:
                found.append(lanes(*self._drop(unit, variant)))
        return join(found)

    def weight_gradient(self, variant: Variant) -> Lanes:
        """Return the ops of the weight-gradient pass of a split backward."""
        found: list[Lanes] = []
        last_of_bucket = {bucket[-1]: bucket for bucket in self.buckets}
        for index in reversed(range(len(self.units))):
            unit = self.units[index]
            found.extend(part.weight for part in reversed(unit.parts))
            found.append(lanes(Free("activations", sum(p.kept for p in unit.parts))))
            if variant.reduce:
                found.append(lanes(Allocate("gradients", self.fresh_gradients(index))))
            if variant.reduce and index in last_of_bucket:
                found.append(lanes(*self._hand_over(unit)))
        return join(found)

    def _back(self, index: int) -> list[Lanes]:
        """Return the start of the copies back from the host, at the first unit, and the wait for a unit's own."""
        order = self.offloaded[::-1]
        found = []
        if order and index == len(self.units) - 1:
            found.append(fetch([self.saved(i) for i in order]))
        if index in order:
            place = order.index(index)
            freed = place >= 1 and place - 1 + AHEAD < len(order)
            found.append(lanes(*((Signal((BACK_CREDIT,)),) if freed else ()), Wait((BACK_AGAIN,))))
        return found

    def _again(self, index: int) -> list[Lanes]:
        """Return the second forward of a fully recomputed unit."""
        if not self.recomputes(index):
            return []
        unit = self.units[index]
        more = self._all_saved(unit) + self._sent(index) - self.saved(index)
        return [
            lanes(Allocate("activations", more)),
            *again(unit.parts, self.repeated(index), self.sizes.plan.recompute_keeps),
        ]

    def fetches_again(self, index: int) -> bool:
        """Whether a unit's parameters are gathered between its recomputation and its backward too."""
        return on_use.gathers_on_use(self.sizes.plan) and self.recomputes(index)

    def _fetch_again(self, unit: Unit) -> Lanes:
        copies = on_use.gathered_lists(self.sizes, on_use.released(unit.tensors), "B")
        return lanes(Signal((CREDIT,)), Wait((GATHERED,)), *copies)

    def _hand_over(self, unit: Unit) -> Iterable[Op]:
        """Hand over the gradients of a bucket that ends with a unit; wait until they are reduced, if so done."""
        if not on_use.reduces_at_once(self.sizes.plan):
            return (Signal((GRADS,)),)
        copies = on_use.reduced_lists(self.sizes, unit.tensors)
        return (*copies, Signal((GRADS,)), Wait((on_use.REDUCED,)))

    def _free_all(self, index: int) -> Iterable[Op]:
        nbytes = self.saved(index)
        if self.recomputes(index):
            nbytes = self._all_saved(self.units[index]) + self._sent(index)
        return (Free("activations", nbytes),)

    def _recomputed(self, part: Part, index: int) -> list[Lanes]:
        selective = self.sizes.plan.recompute == "selective" and bool(part.recomputed)
        if not selective:
            return []
        held = part.recomputed_bytes
        return [
            lanes(Allocate("activations", held)),
            part.recomputed,
            lanes(Free("activations", held)),
        ]

    def _temporary(self, unit: Unit, op: type[Allocate] | type[Free]) -> Iterable[Op]:
        """Gradients in flight: those of the widest part's inputs and outputs; of the head, one of its weight."""
        nbytes = 1.5 * max(part.saved for part in unit.parts)
        if unit.name == "head" and self.sizes.software.fused_wgrad:
            nbytes += unit.dense_weights * self.sizes.value
        return (op("temporary", nbytes),)

    def _widened(self) -> Iterable[Op]:
        """DeepSpeed's BF16_Optimizer adds a pass's gradients to their sums as fp32 copies, one tensor at a time."""
        if not (self.sizes.software.flat_step and self.sizes.plan.dtype == "bf16"):
            return ()
        dense = (part.weights - part.expert_weights for unit in self.units for part in unit.parts)
        nbytes = max(dense, default=0.0) * grad_bytes(self.sizes)
        return (Allocate("buffers", nbytes), Free("buffers", nbytes))

    def _drop(self, unit: Unit, variant: Variant) -> Iterable[Op]:
        release = (Free("gathered", unit_bytes(self.sizes, unit)),) if variant.release else ()
        return (Signal((CREDIT,)), *release)


def unit_bytes(sizes: Sizes, unit: Unit) -> float:
    """Bytes of a unit's parameters on this rank when gathered."""
    return (unit.dense_weights + unit.expert_weights) * sizes.value


def grad_bytes(sizes: Sizes) -> float:
    """Bytes of a gradient value where it accumulates and reduces."""
    return sizes.grad


def bucket_bytes(sizes: Sizes) -> float:
    """Bytes of a gradient bucket; by default the software's: Megatron-Core's 40 M values (1 M a rank), FSDP's unit."""
    plan = sizes.plan
    if plan.bucket_bytes:
        return plan.bucket_bytes
    if plan.zero == 3:
        return 1.0
    if sizes.software.bucket_values:
        sharded = plan.zero in (1, 2)
        return (DEEPSPEED_BUCKET if sharded else sizes.software.bucket_values) * grad_bytes(sizes)
    return max(40 * MEGA, MEGA * plan.dp * plan.cp) * grad_bytes(sizes)


__all__ = [
    "COMPUTE",
    "Chunk",
    "Known",
    "Unit",
    "Variant",
    "bucket_bytes",
    "grad_bytes",
    "unit_bytes",
]
