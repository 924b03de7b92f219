"""Matrices: the weights of a layer as the products they take part in.

One source for parameters, FLOPs and kernels.
"""

from typing import NamedTuple

from workloads.model import SOFTMAX_MIXERS, LayerKind, Model


class Matrix(NamedTuple):
    """A weight (inputs, outputs), held ``copies`` times, ``active`` of them applied to one token.

    ``part``: attention, mixer (mamba, linear), mlp, router, experts, shared, head or mtp.
    """

    name: str
    part: str
    inputs: int
    outputs: int
    bias: bool = False
    copies: int = 1
    active: int = 1

    @property
    def num_params(self) -> int:
        """Weights of all copies, without biases."""
        return self.inputs * self.outputs * self.copies

    @property
    def num_biases(self) -> int:
        """Bias values of all copies."""
        return self.outputs * self.copies if self.bias else 0

    @property
    def num_active_params(self) -> int:
        """Weights one token meets."""
        return self.inputs * self.outputs * self.active


def layer_matrices(model: Model, kind: LayerKind) -> tuple[Matrix, ...]:
    """Return every matrix of a layer of ``kind``, in the order a token meets them."""
    return (*_MIXER_MATRICES[kind.attention](model), *_MLP_MATRICES[kind.mlp](model))


def head_matrix(model: Model) -> Matrix:
    """Return the output projection (hidden, vocabulary)."""
    return Matrix("head", "head", model.hidden_size, model.vocab_size, bias=model.head_bias)


def mtp_matrix(model: Model) -> Matrix:
    """Return the projection that joins hidden state and next embedding (multi-token prediction)."""
    return Matrix("mtp_proj", "mtp", 2 * model.hidden_size, model.hidden_size)


def mtp_kind(model: Model) -> LayerKind:
    """Return the kind of a multi-token-prediction layer: that of the last layer that attends.

    DeepSeek-V3 report (2412.19437), section 2.2: a block like the model's own. A hybrid's ends in
    an MLP of its last kind.
    """
    kinds = model.layer_kinds
    mixer = next((k.attention for k in reversed(kinds) if k.attention in SOFTMAX_MIXERS), "none")
    mlp = next((k.mlp for k in reversed(kinds) if k.mlp != "none"), "none")
    return LayerKind(mixer, mlp)


def _attention(model: Model) -> tuple[Matrix, ...]:
    if model.is_mla:
        return _latent_attention(model)
    h, d = model.hidden_size, model.head_dim
    queries = model.num_heads * d * (2 if model.attention_gate else 1)
    qkv = queries + model.num_kv_heads * (model.qk_dim + model.v_dim)
    return (
        Matrix("qkv", "attention", h, qkv, bias=model.qkv_bias),
        Matrix("out", "attention", model.num_heads * model.v_dim, h, bias=model.out_bias),
    )


def _latent_attention(model: Model) -> tuple[Matrix, ...]:
    """DeepSeek-V2 (2405.04434), section 2.1: low-rank queries (optional), keys and values."""
    h, n, bias = model.hidden_size, model.num_heads, model.qkv_bias
    q_rank, rank = model.q_lora_rank, model.kv_lora_rank
    queries = n * model.qk_dim
    down = (
        (
            Matrix("q_down", "attention", h, q_rank, bias=bias),
            Matrix("q_up", "attention", q_rank, queries),
        )
        if q_rank
        else (Matrix("q", "attention", h, queries),)
    )
    return (
        *down,
        Matrix("kv_down", "attention", h, rank + model.qk_rope_head_dim, bias=bias),
        Matrix("kv_up", "attention", rank, n * (model.qk_nope_head_dim + model.v_head_dim)),
        Matrix("out", "attention", n * model.v_head_dim, h, bias=model.out_bias),
    )


def _mamba(model: Model) -> tuple[Matrix, ...]:
    """Mamba-2 (2405.21060), section 7: one projection for z, x, B, C and dt; a projection back."""
    inner = model.mamba_num_heads * model.mamba_head_dim
    states = model.mamba_num_groups * model.mamba_state_size
    width = 2 * inner + 2 * states + model.mamba_num_heads
    return (
        Matrix("mamba_in", "mixer", model.hidden_size, width),
        Matrix("mamba_out", "mixer", inner, model.hidden_size),
    )


def _linear(model: Model) -> tuple[Matrix, ...]:
    """Gated DeltaNet (2412.06464): q, k, v, gate z; per-head rates b and a; a projection back."""
    keys = model.linear_num_key_heads * model.linear_key_head_dim
    values = model.linear_num_value_heads * model.linear_value_head_dim
    return (
        Matrix("linear_qkvz", "mixer", model.hidden_size, 2 * keys + 2 * values),
        Matrix("linear_ba", "mixer", model.hidden_size, 2 * model.linear_num_value_heads),
        Matrix("linear_out", "mixer", values, model.hidden_size),
    )


def _dense(model: Model) -> tuple[Matrix, ...]:
    return _mlp(model, "", "mlp", model.hidden_size, model.ffn_size)


def _moe(model: Model) -> tuple[Matrix, ...]:
    h, latent = model.hidden_size, model.moe_latent_size
    n, k = model.num_experts, model.experts_per_token
    down = (Matrix("latent_down", "mlp", h, latent),) if latent else ()
    up = (Matrix("latent_up", "mlp", latent, h),) if latent else ()
    experts = _mlp(model, "expert_", "experts", latent or h, model.expert_ffn_size)
    shared = _mlp(model, "shared_", "shared", h, model.shared_width) if model.shared_width else ()
    gate = (Matrix("shared_gate", "shared", h, 1),) if model.shared_gate and shared else ()
    return (
        Matrix("router", "router", h, n, bias=model.router_bias),
        *down,
        *(m._replace(copies=n, active=k) for m in experts),
        *up,
        *shared,
        *gate,
    )


def _mlp(model: Model, prefix: str, part: str, inputs: int, width: int) -> tuple[Matrix, ...]:
    gated = 2 if model.gated_mlp else 1
    return (
        Matrix(f"{prefix}up", part, inputs, gated * width, bias=model.mlp_bias),
        Matrix(f"{prefix}down", part, width, inputs, bias=model.mlp_bias),
    )


def _none(model: Model) -> tuple[Matrix, ...]:
    return ()


_MIXER_MATRICES = {
    "full": _attention, "window": _attention, "mamba": _mamba, "linear": _linear, "none": _none,
}  # fmt: skip
_MLP_MATRICES = {"dense": _dense, "moe": _moe, "none": _none}
