"""Model: the architecture numbers of a transformer, and what each of its layers is made of.

Counts that follow from them (parameters, FLOPs) are in ``workloads.counts``; the matrices of a layer
in ``workloads.matrices``; the shapes that ship in ``workloads.models``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from sim.errors import PlanError, unknown

POSITIONS = ("rotary", "learned", "alibi", "none")
NORMS = ("rms", "layer")
QK_NORMS = ("", "head", "full")
SOFTMAX_MIXERS = ("full", "window")
MIXERS = (*SOFTMAX_MIXERS, "mamba", "linear", "none")
MLPS = ("dense", "moe", "none")


class LayerKind(NamedTuple):
    """What a layer is: ``attention`` full, window, mamba, linear, none; ``mlp`` dense, moe, none."""

    attention: str
    mlp: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Architecture numbers of a decoder-only model; widths in values. Raises `PlanError`.

    ``ffn_size`` is the width of a dense MLP (of the dense layers, in a mixture of experts),
    ``expert_ffn_size`` of one routed expert, ``shared_ffn_size`` of one of ``num_shared_experts``.
    The first ``num_dense_layers`` layers are dense, after them each ``moe_every``-th is a mixture.
    ``window_size`` > 0 limits attention to that many keys, except in each ``window_period``-th
    layer (0: in none). ``layer_types``, where given, states every layer and overrides those rules.
    ``kv_lora_rank`` > 0 is multi-head latent attention; ``moe_latent_size`` > 0 runs the routed
    experts at that width between two projections; of ``num_routing_groups`` groups of experts a token
    reaches at most ``routed_groups_per_token``. ``norms_per_layer`` counts block norms (4: before
    and after). ``max_positions`` is the rows of a learned table. ``active_embedding`` says whether
    the maker counts the embedding lookup among the active parameters.
    """

    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    gated_mlp: bool = True
    tied_embeddings: bool = False
    # positions and norms
    positions: str = "rotary"
    max_positions: int = 0
    norm: str = "rms"
    norms_per_layer: int = 2
    norm_weight: bool = True
    norm_bias: bool = False
    embedding_norm: bool = False
    qk_norm: str = ""
    # biases
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    parallel_block: bool = False
    # mixture of experts
    num_experts: int = 0
    experts_per_token: int = 0
    expert_ffn_size: int = 0
    num_shared_experts: int = 0
    shared_ffn_size: int = 0
    num_dense_layers: int = 0
    moe_every: int = 1
    router_bias: bool = False
    shared_gate: bool = False
    moe_latent_size: int = 0
    num_routing_groups: int = 0
    routed_groups_per_token: int = 0
    # multi-head latent attention
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0
    # which layer does what
    window_size: int = 0
    window_period: int = 0
    layer_types: tuple[LayerKind, ...] = ()
    attention_sinks: bool = False
    attention_gate: bool = False
    # Mamba-2 mixers
    mamba_num_heads: int = 0
    mamba_head_dim: int = 0
    mamba_state_size: int = 0
    mamba_num_groups: int = 1
    # linear attention (gated delta rule)
    linear_num_key_heads: int = 0
    linear_num_value_heads: int = 0
    linear_key_head_dim: int = 0
    linear_value_head_dim: int = 0
    conv_size: int = 4
    # multi-token prediction
    num_mtp_layers: int = 0
    # how often each of those is applied (a repeated layer looks that many tokens ahead)
    mtp_passes: int = 1
    # whether its makers keep it in the activations' precision where the rest is quantised
    mtp_wide: bool = False
    # whether training in 4 bits leaves some of it in more: see `workloads.layers.precision`
    fp4_mixed: bool = False
    # whether the maker counts the embedding lookup among the active parameters
    active_embedding: bool = True

    def __post_init__(self) -> None:
        """Check every rule of the numbers."""
        for rules in _RULES:
            for broken in rules(self):
                raise PlanError(f"model {self.name!r}: {broken}")

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """The kind of every layer, first to last: (num_layers,)."""
        return _layer_kinds(self)

    @property
    def is_moe(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return self.num_experts > 0

    @property
    def is_mla(self) -> bool:
        """Whether attention compresses keys and values (multi-head latent attention)."""
        return self.kv_lora_rank > 0

    @property
    def qk_dim(self) -> int:
        """Width of a query or key head: ``head_dim``, or nope + rope of latent attention."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim if self.is_mla else self.head_dim

    @property
    def v_dim(self) -> int:
        """Width of a value head."""
        return self.v_head_dim or self.head_dim

    @property
    def shared_width(self) -> int:
        """Width of all shared experts side by side."""
        return self.num_shared_experts * self.shared_ffn_size


def kind_counts(model: Model) -> dict[LayerKind, int]:
    """Return how many layers there are of each distinct kind, in order of first appearance."""
    kinds = model.layer_kinds
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


@lru_cache(maxsize=256)
def _layer_kinds(model: Model) -> tuple[LayerKind, ...]:
    return _derive_kinds(model)


def _derive_kinds(model: Model) -> tuple[LayerKind, ...]:
    if model.layer_types:
        return model.layer_types
    if not model.window_size and not model.is_moe:
        return (LayerKind("full", "dense"),) * model.num_layers
    return tuple(LayerKind(_mixer(model, i), _mlp(model, i)) for i in range(model.num_layers))


def _mixer(model: Model, layer: int) -> str:
    period = model.window_period
    if not model.window_size or (period and (layer + 1) % period == 0):
        return "full"
    return "window"


def _mlp(model: Model, layer: int) -> str:
    """Layer ``d + k * moe_every + (moe_every - 1)`` is a mixture, d the leading dense layers."""
    after = layer - model.num_dense_layers
    return "moe" if model.is_moe and after >= 0 and (after + 1) % model.moe_every == 0 else "dense"


_POSITIVE = ("num_layers", "hidden_size", "vocab_size", "norms_per_layer", "moe_every")
_FLAGS = {
    "gated_mlp", "tied_embeddings", "norm_weight", "norm_bias", "embedding_norm", "qkv_bias",
    "out_bias", "mlp_bias", "head_bias", "parallel_block", "router_bias", "shared_gate",
    "attention_sinks", "attention_gate", "active_embedding", "mtp_wide", "fp4_mixed",
}  # fmt: skip
_WORDS = {"positions": POSITIONS, "norm": NORMS, "qk_norm": QK_NORMS}
_OTHER = {"name", "layer_types", *_FLAGS, *_WORDS}
_OF_EXPERTS = (
    "experts_per_token", "num_shared_experts", "num_dense_layers", "moe_latent_size",
    "num_routing_groups", "routed_groups_per_token",
)  # fmt: skip
_MAMBA = ("mamba_num_heads", "mamba_head_dim", "mamba_state_size", "mamba_num_groups", "conv_size")
_LINEAR = (
    "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
    "linear_value_head_dim", "conv_size",
)  # fmt: skip
_NEEDS = {
    "full": ("num_heads", "num_kv_heads", "head_dim"),
    "window": ("num_heads", "num_kv_heads", "head_dim", "window_size"),
    "mamba": _MAMBA,
    "linear": _LINEAR,
    "none": (),
    "dense": ("ffn_size",),
    "moe": ("num_experts",),
}
"""What a layer of a kind cannot be without."""
_WAY_OUT = "give a size above 0"


def _size_rules(model: Model) -> Iterator[str]:
    for field in model.__slots__:
        value = getattr(model, field)
        if field in _OTHER:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            yield f"{field}={value!r} must be a whole number"
        elif value < 0:
            yield f"{field}={value} must not be negative; use 0 or more"
        elif value == 0 and field in _POSITIVE:
            yield f"{field}={value} must be at least 1; {_WAY_OUT}"


def _word_rules(model: Model) -> Iterator[str]:
    for field, known in _WORDS.items():
        value = getattr(model, field)
        if value not in known:
            yield unknown(field, value, known)
    for field in _FLAGS:
        value = getattr(model, field)
        if not isinstance(value, bool):
            yield f"{field}={value!r} must be true or false"
    if model.positions == "learned" and not model.max_positions:
        yield "positions='learned' needs max_positions, the rows of the table; set the longest sequence"


def _layer_rules(model: Model) -> Iterator[str]:
    stated = len(model.layer_types)
    if stated not in (0, model.num_layers):
        yield f"layer_types states {stated} layers, num_layers={model.num_layers}; state all or none"
    kinds = set(_derive_kinds(model))
    for kind in kinds:
        if kind.attention not in MIXERS:
            yield unknown("attention kind", kind.attention, MIXERS)
        if kind.mlp not in MLPS:
            yield unknown("mlp kind", kind.mlp, MLPS)
    for used in sorted({word for kind in kinds for word in kind}):
        for field in _NEEDS[used]:
            if getattr(model, field) < 1:
                yield f"{field}={getattr(model, field)} but a layer is {used!r}; {_WAY_OUT}"
    if model.window_period and not model.window_size:
        yield f"window_period={model.window_period} without window_size; set both or neither"
    if model.is_moe and all(kind.mlp != "moe" for kind in kinds):
        yield (
            f"num_experts={model.num_experts} but no layer has them: "
            f"num_dense_layers={model.num_dense_layers}, moe_every={model.moe_every}, "
            f"num_layers={model.num_layers}; lower the first two"
        )


def _head_rules(model: Model) -> Iterator[str]:
    heads, kv = model.num_heads, model.num_kv_heads
    if heads and kv and heads % kv:
        legal = ", ".join(str(d) for d in range(1, heads + 1) if heads % d == 0)
        yield f"num_kv_heads={kv} does not divide num_heads={heads}; choose from {legal}"
    if model.is_mla:
        for field in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
            if not getattr(model, field):
                yield f"{field}=0 with kv_lora_rank={model.kv_lora_rank}; {_WAY_OUT}"


def _expert_rules(model: Model) -> Iterator[str]:
    experts, topk = model.num_experts, model.experts_per_token
    if not experts:
        for field in _OF_EXPERTS:
            value = getattr(model, field)
            if value:
                yield f"{field}={value} without experts; set num_experts or leave it out"
        return
    if not 1 <= topk <= experts:
        yield f"experts_per_token={topk} must be between 1 and num_experts={experts}; stay within it"
    groups, reached = model.num_routing_groups, model.routed_groups_per_token
    if groups and (experts % groups or not 1 <= reached <= groups):
        yield (
            f"num_routing_groups={groups} with routed_groups_per_token={reached}: the first must divide "
            f"num_experts={experts}, the second be from 1 to the first"
        )
    if not model.expert_ffn_size:
        yield f"num_experts={experts} needs expert_ffn_size, the width of one expert; {_WAY_OUT}"
    if model.num_shared_experts and not model.shared_ffn_size:
        yield (
            f"num_shared_experts={model.num_shared_experts} needs shared_ffn_size, the width of "
            f"one; usually expert_ffn_size={model.expert_ffn_size}"
        )


_RULES = (_size_rules, _word_rules, _layer_rules, _head_rules, _expert_rules)
