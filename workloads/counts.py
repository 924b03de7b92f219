"""Counts: parameters and model FLOPs that follow from the architecture numbers; exact, pure."""

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass

from sim.errors import PlanError, unknown
from workloads.matrices import Matrix, head_matrix, layer_matrices, mtp_kind, mtp_matrix
from workloads.model import SOFTMAX_MIXERS, LayerKind, Model, kind_counts

CONVENTIONS = ("full", "causal", "masked")
"""Of attention scores: the whole matrix; half of it; half of it within each layer's own window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerParams:
    """Parameters of one layer by part; ``small``: of no matrix (convolutions, sinks, decays)."""

    attention: int = 0
    mixer: int = 0
    mlp: int = 0
    router: int = 0
    experts: int = 0
    shared: int = 0
    norm: int = 0
    bias: int = 0
    small: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(astuple(self))

    @property
    def dense(self) -> int:
        """All but the routed experts: what data parallelism holds whole."""
        return self.total - self.experts


PARTS = ("embedding", "positions", "layers", "final_norm", "head", "mtp")
DEFAULT_PARTS = ("embedding", "positions", "layers", "final_norm", "head")


def layer_params(model: Model, kind: LayerKind) -> LayerParams:
    """Return the parameters of one layer of ``kind``, by part."""
    matrices = layer_matrices(model, kind)
    parts: dict[str, int] = {}
    for matrix in matrices:
        parts[matrix.part] = parts.get(matrix.part, 0) + matrix.num_params
    bias = sum(matrix.num_biases for matrix in matrices)
    return LayerParams(
        **parts, bias=bias, norm=_norm_params(model, kind), small=_small(model, kind)
    )


def num_params(model: Model, *, including: Iterable[str] = DEFAULT_PARTS) -> int:
    """Return the parameters of the model: weights, norms, biases, positions; all experts.

    ``including`` picks of ``PARTS``: embedding, positions, layers, final_norm, head (0 if tied), mtp
    (left out unless asked for, as published counts do). Raises `PlanError` on another word.
    """
    return _sum_parts(model, including, lambda kind: layer_params(model, kind).total)


def num_active_params(model: Model, *, including: Iterable[str] | None = None) -> int:
    """Return the parameters one token meets: of ``num_experts``, ``experts_per_token``.

    By default all of ``DEFAULT_PARTS``, or, where the maker's count leaves the embedding lookup out
    (``active_embedding`` false), all but an untied embedding.
    """
    skipped = () if model.active_embedding or model.tied_embeddings else ("embedding",)
    parts = [part for part in DEFAULT_PARTS if part not in skipped]
    wanted = parts if including is None else including
    return _sum_parts(model, wanted, lambda kind: _active_layer_params(model, kind))


def flops_per_token(
    model: Model, seq_len: float, convention: str = "full", *, mtp: bool = False, head: bool = True
) -> float:
    """Return model FLOPs a token of one training step: forward, twice that backward, no recompute.

    A matrix costs 2 inputs x outputs a token, a routed expert's only for the experts chosen; the
    embedding lookup costs nothing, the head is counted, tied or not (``head`` false leaves it
    out). Attention adds 2 (qk_dim + v_dim) num_heads a score, with ``seq_len`` scores a token
    (``full``: 12 L H Q T of the PaLM paper, 2204.02311, appendix B), half that (``causal``), or
    the mean number of keys a query really sees in its layer (``masked``). ``full`` and ``causal``
    ignore sliding windows, as the reports that use them do. ``mtp`` adds the multi-token-prediction
    layers, each with its projection and its use of the head. Raises `PlanError`.
    """
    if convention not in CONVENTIONS:
        raise PlanError(unknown("FLOPs convention", convention, CONVENTIONS))
    if seq_len < 1:
        raise PlanError(f"seq_len={seq_len} must be at least 1; give the tokens of one sequence")
    forward = sum(
        count * layer_flops_per_token(model, kind, seq_len, convention)
        for kind, count in kind_counts(model).items()
    )
    head_flops = _product_flops(head_matrix(model))
    if head:
        forward += head_flops
    if mtp:
        extra = layer_flops_per_token(model, mtp_kind(model), seq_len, convention)
        extra += _product_flops(mtp_matrix(model)) + head_flops
        forward += model.num_mtp_layers * model.mtp_passes * extra
    return 3.0 * forward


def layer_flops_per_token(
    model: Model, kind: LayerKind, seq_len: float, convention: str = "full"
) -> float:
    """Return forward FLOPs a token of one layer of ``kind``: matrices, and attention or mixer."""
    products = sum(_product_flops(matrix) for matrix in layer_matrices(model, kind))
    return products + _MIXING_FLOPS[kind.attention](model, kind, seq_len, convention)


def scores_per_token(model: Model, kind: LayerKind, seq_len: float, convention: str) -> float:
    """Return the attention scores a head computes a token, on average over the sequence."""
    if convention == "full":
        return float(seq_len)
    window = model.window_size
    if convention == "masked" and kind.attention == "window" and window < seq_len:
        return window - window * window / (2.0 * seq_len)
    return seq_len / 2.0


def _product_flops(matrix: Matrix) -> float:
    return 2.0 * matrix.num_active_params


def _softmax_flops(model: Model, kind: LayerKind, seq_len: float, convention: str) -> float:
    scores = scores_per_token(model, kind, seq_len, convention)
    return 2.0 * model.num_heads * (model.qk_dim + model.v_dim) * scores


def _mamba_flops(model: Model, kind: LayerKind, seq_len: float, convention: str) -> float:
    """State update and read-out, 3 products of (head_dim, state) a head, and convolution."""
    inner = model.mamba_num_heads * model.mamba_head_dim
    conv = inner + 2 * model.mamba_num_groups * model.mamba_state_size
    return 6.0 * inner * model.mamba_state_size + 2.0 * conv * model.conv_size


def _linear_flops(model: Model, kind: LayerKind, seq_len: float, convention: str) -> float:
    """Delta rule: read, correct, write, query a (key, value) state a head; and convolution."""
    state = model.linear_num_value_heads * model.linear_key_head_dim * model.linear_value_head_dim
    return 8.0 * state + 2.0 * _linear_conv_width(model) * model.conv_size


def _no_flops(model: Model, kind: LayerKind, seq_len: float, convention: str) -> float:
    return 0.0


_MIXING_FLOPS: dict[str, Callable[[Model, LayerKind, float, str], float]] = {
    "full": _softmax_flops,
    "window": _softmax_flops,
    "mamba": _mamba_flops,
    "linear": _linear_flops,
    "none": _no_flops,
}


def _norm_size(model: Model, width: int) -> int:
    return width * (int(model.norm_weight) + int(model.norm_bias))


def _norm_params(model: Model, kind: LayerKind) -> int:
    """Block norms (half where a layer is a mixer or an MLP alone), query/key and latent norms."""
    halves = int(kind.attention != "none") + int(kind.mlp != "none")
    total = _norm_size(model, model.hidden_size * model.norms_per_layer) * halves // 2
    if kind.attention in SOFTMAX_MIXERS:
        heads = model.num_heads + model.num_kv_heads
        vectors = {"": 0, "head": 2 * model.head_dim, "full": heads * model.head_dim}[model.qk_norm]
        total += _norm_size(model, vectors + model.q_lora_rank + model.kv_lora_rank)
    return total


def _linear_conv_width(model: Model) -> int:
    keys = model.linear_num_key_heads * model.linear_key_head_dim
    return 2 * keys + model.linear_num_value_heads * model.linear_value_head_dim


def _small(model: Model, kind: LayerKind) -> int:
    """Convolutions, decay rates and skips of mixers and their gated norm; attention sinks."""
    if kind.attention == "mamba":
        inner = model.mamba_num_heads * model.mamba_head_dim
        conv = inner + 2 * model.mamba_num_groups * model.mamba_state_size
        return conv * (model.conv_size + 1) + 3 * model.mamba_num_heads + inner
    if kind.attention == "linear":
        heads = model.linear_num_value_heads
        return _linear_conv_width(model) * model.conv_size + 2 * heads + model.linear_value_head_dim
    return model.num_heads if model.attention_sinks and kind.attention in SOFTMAX_MIXERS else 0


def _active_layer_params(model: Model, kind: LayerKind) -> int:
    routed = [m for m in layer_matrices(model, kind) if m.part == "experts"]
    idle = sum(m.num_params - m.num_active_params for m in routed)
    idle += sum(m.num_biases - (m.outputs * m.active if m.bias else 0) for m in routed)
    return layer_params(model, kind).total - idle


def _sum_parts(model: Model, including: Iterable[str], of_layer: Callable[[LayerKind], int]) -> int:
    h = model.hidden_size
    head = head_matrix(model)
    learned = model.positions == "learned"
    norm = _norm_size(model, h)
    mtp_norms = 3 * norm if model.num_mtp_layers else 0
    mtp = of_layer(mtp_kind(model)) + mtp_matrix(model).num_params + mtp_norms
    sizes = {
        "embedding": model.vocab_size * h + (norm if model.embedding_norm else 0),
        "positions": model.max_positions * h if learned else 0,
        "layers": sum(count * of_layer(kind) for kind, count in kind_counts(model).items()),
        "final_norm": norm,
        "head": head.num_biases + (0 if model.tied_embeddings else head.num_params),
        "mtp": model.num_mtp_layers * mtp if model.num_mtp_layers else 0,
    }
    wanted = tuple(including)
    for part in wanted:
        if part not in sizes:
            raise PlanError(unknown("part of a model", part, PARTS))
    return sum(sizes[part] for part in wanted)
