"""Layers: what one layer of the model does on one rank, as parts. One kind of mixer or MLP a file."""

from collections.abc import Callable

from sim.errors import PlanError
from workloads.layers.attention import attention_block
from workloads.layers.linear_attention import linear_block
from workloads.layers.mamba import mamba_block
from workloads.layers.mlp import mlp_block
from workloads.layers.moe import experts, moe_block
from workloads.layers.part import Part
from workloads.layers.precision import kept
from workloads.layers.sizes import Sizes
from workloads.model import LayerKind

Block = Callable[[Sizes, LayerKind], list[Part]]


def _nothing(sizes: Sizes, kind: LayerKind) -> list[Part]:
    return []


MIXERS: dict[str, Block] = {
    "full": attention_block,
    "window": attention_block,
    "mamba": mamba_block,
    "linear": linear_block,
    "none": _nothing,
}
MLPS: dict[str, Block] = {"dense": mlp_block, "moe": moe_block, "none": _nothing}


def layer_parts(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return the parts of one layer, first to last."""
    return [*mixer_parts(sizes, kind), *mlp_parts(sizes, kind)]


def mixer_parts(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return the parts of a layer that mix tokens (attention, or what stands in its place)."""
    if kind.attention not in MIXERS:
        raise PlanError(
            f"{sizes.model.name}: layers of kind {kind.attention!r} cannot be lowered yet; "
            f"kinds: {', '.join(MIXERS)}"
        )
    return MIXERS[kind.attention](kept(sizes, kind.attention), kind)


def mlp_parts(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return the parts of a layer that work on each token alone."""
    return MLPS[kind.mlp](sizes, kind)


def with_load(parts: tuple[Part, ...], loaded: Sizes, kind: LayerKind) -> tuple[Part, ...]:
    """Return the parts of a layer with those that depend on how many tokens come here made for that."""
    routed = {part.name: part for part in experts(loaded)}
    if routed.keys() <= {part.name for part in parts} and not loaded.recomputes("moe"):
        return tuple(routed.get(part.name, part) for part in parts)
    first = len(parts) - len(MLPS[kind.mlp](loaded, kind))
    return (*parts[:first], *mlp_parts(loaded, kind))


__all__ = [
    "MIXERS",
    "MLPS",
    "Part",
    "Sizes",
    "layer_parts",
    "mixer_parts",
    "mlp_parts",
    "with_load",
]
