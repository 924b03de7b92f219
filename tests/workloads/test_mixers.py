"""Mixers one by one: products, scores, bytes kept from forward to backward, against hand counts and published sizes."""

from dataclasses import replace

import pytest

from sim.kernels.shapes import Attention, Gemm
from sim.program import Compute
from workloads.counts import (
    flops_per_token,
    layer_flops_per_token,
    layer_params,
    num_params,
    scores_per_token,
)
from workloads.layers import Sizes, layer_parts, mixer_parts
from workloads.layers.mtp import mtp_parts
from workloads.layers.part import Part
from workloads.matrices import layer_matrices, mtp_kind
from workloads.model import LayerKind, Model
from workloads.models import model
from workloads.plan import Plan

S = 4096
V3, GEMMA2, NANO = model("deepseek-v3"), model("gemma2-27b"), model("nemotron3-nano-30b-a3b")
MQA = Model(
    name="mqa", num_layers=2, hidden_size=4544, num_heads=71, num_kv_heads=1, head_dim=64,
    ffn_size=18176, vocab_size=65024, gated_mlp=False,
)  # fmt: skip
DELTA = Model(
    name="delta", num_layers=4, hidden_size=2048, num_heads=16, num_kv_heads=2, head_dim=256,
    ffn_size=5120, vocab_size=151936, linear_num_key_heads=16, linear_num_value_heads=32,
    linear_key_head_dim=128, linear_value_head_dim=128, attention_gate=True,
    layer_types=(*(LayerKind("linear", "dense"),) * 3, LayerKind("full", "dense")),
)  # fmt: skip


def sizes(of: Model, **fields) -> Sizes:
    return Sizes(of, Plan(**{"global_batch": 1, "seq_len": S, **fields}))


def parts(of: Model, kind: LayerKind, **fields) -> dict[str, Part]:
    return {part.name: part for part in mixer_parts(sizes(of, **fields), kind)}


def products(found: dict[str, Part]) -> dict[str, tuple[int, int]]:
    """(outputs, inputs) of the weights of the forward."""
    return {
        op.name: (op.kernel.n, op.kernel.k)
        for part in found.values()
        for op in part.forward["compute"]
        if isinstance(op, Compute) and isinstance(op.kernel, Gemm) and op.kernel.batch == 1
    }


def core(found: dict[str, Part], direction: str = "forward") -> Attention:
    (op,) = getattr(found["attention"], direction)["compute"]
    assert isinstance(op.kernel, Attention)
    return op.kernel


def test_latent_attention_of_deepseek_v3_by_hand() -> None:
    """128 heads of 128 + 64 for scores and 128 for values; ranks 1,536 and 512; 187.1 M parameters a layer."""
    found = parts(V3, V3.layer_kinds[-1])
    assert products(found) == {
        "q_down": (1536, 7168),
        "q_up": (128 * 192, 1536),
        "kv_down": (512 + 64, 7168),
        "kv_up": (128 * 256, 512),
        "attn_out": (7168, 128 * 128),
    }
    weights = 1536 * 7168 + 24576 * 1536 + 576 * 7168 + 32768 * 512 + 7168 * 16384
    params = layer_params(V3, V3.layer_kinds[-1])
    assert params.attention == weights == 187_105_280
    kernel = core(found)
    assert (kernel.heads, kernel.kv_heads, kernel.head_dim, kernel.v_head_dim) == (
        128,
        128,
        192,
        128,
    )
    assert kernel.flops == 2.0 * 128 * (S * S / 2) * (192 + 128)
    assert core(found, "backward").flops == 2.5 * kernel.flops


def test_latent_attention_keeps_latents_and_whole_heads() -> None:
    """In bf16: queries and keys of 192, values of 128 a head (a statistic in fp32); 576 values of latents."""
    found = parts(V3, V3.layer_kinds[-1])
    assert found["attention"].saved == S * 128 * ((192 + 192 + 128) * 2 + 4)
    assert found["q_up"].saved == S * 1536 * 2
    assert found["kv_up"].saved == S * 512 * 2
    assert found["kv_down"].saved == 0  # its input is that of the queries


def test_latents_come_back_from_latents_where_recomputed() -> None:
    """Recomputed up-projections: their outputs, queries, keys and values, are not kept."""
    fields = {"recompute": "selective", "recompute_modules": ("mla_up_proj",)}
    found = parts(V3, V3.layer_kinds[-1], **fields)["attention"]
    names = [op.name for op in found.recomputed["compute"]]
    assert names == ["q_up", "kv_up", "rotary"]
    assert found.recomputed_bytes == S * 128 * (192 + 192 + 128) * 2


@pytest.mark.parametrize("tp", [1, 4])
def test_multi_query_attention_shares_one_key_head(tp) -> None:
    """Falcon 7B's shape (71 heads; 72 where split): one key and one value of 64 on every rank."""
    shape = replace(MQA, num_heads=72, hidden_size=4608) if tp > 1 else MQA
    found = parts(shape, LayerKind("full", "dense"), tp=tp)
    heads = shape.num_heads // tp
    assert products(found)["qkv"] == (heads * 64 + 2 * 64, shape.hidden_size)
    assert core(found).kv_heads == 1
    assert found["attention"].saved == S * ((heads + 2) * 64 * 2 + heads * 4)
    assert core(found).nbytes == 2.0 * S * 64 * 2 * (heads + 1)


def test_local_and_global_layers_take_turns() -> None:
    """Gemma 2: every second layer sees 4,096 keys, the others all 8,192."""
    kinds = GEMMA2.layer_kinds
    assert [kind.attention for kind in kinds[:4]] == ["window", "full", "window", "full"]
    local, whole = (core(parts(GEMMA2, kind, seq_len=8192)) for kind in kinds[:2])
    assert whole.num_scores == 8192**2 / 2
    assert local.num_scores == 8192 * 4096 - 4096**2 / 2
    assert local.num_scores / 8192 == scores_per_token(GEMMA2, kinds[0], 8192, "masked")
    assert (local.nbytes, local.window) == (whole.nbytes, 4096)


def test_a_window_longer_than_the_sequence_changes_nothing() -> None:
    local, whole = (core(parts(GEMMA2, kind, seq_len=2048)) for kind in GEMMA2.layer_kinds[:2])
    assert local.num_scores == whole.num_scores == 2048**2 / 2


@pytest.mark.parametrize("context", ["all_gather", "ring"])
def test_windows_keep_their_scores_over_ranks(context) -> None:
    """8 ranks of 8,192 tokens: together the band of 4,096 keys; a ring's middle rounds have nothing to do."""
    found = parts(GEMMA2, GEMMA2.layer_kinds[0], seq_len=65536, cp=8, context=context)
    rounds = [op.kernel for op in found["attention"].forward["compute"] if isinstance(op, Compute)]
    assert 8 * sum(kernel.num_scores for kernel in rounds) == 65536 * 4096 - 4096**2 / 2
    assert len(rounds) == {"all_gather": 1, "ring": 3}[context]


def test_mamba_2_by_hand() -> None:
    """Nemotron 3 Nano: 64 heads of 64, 8 groups of states of 128: z, x, B, C and dt in one product."""
    kind = next(kind for kind in NANO.layer_kinds if kind.attention == "mamba")
    found = parts(NANO, kind)
    inner, states, h = 64 * 64, 8 * 128, NANO.hidden_size
    assert products(found) == {
        "mamba_in": (2 * inner + 2 * states + 64, h),
        "mamba_out": (h, inner),
    }
    conv = (inner + 2 * states) * (4 + 1)
    assert sum(part.weights for part in found.values()) == layer_params(NANO, kind).total
    assert (
        layer_params(NANO, kind).total
        == h * (3 * inner + 2 * states + 64) + conv + 3 * 64 + inner + h
    )
    assert found["mamba_in"].saved == S * h * 2
    assert found["mamba_conv"].saved == S * (2 * inner + 2 * states + 64) * 2


def test_mamba_2_costs_the_same_a_token_at_any_length() -> None:
    kind = next(kind for kind in NANO.layer_kinds if kind.attention == "mamba")
    one, other = (layer_flops_per_token(NANO, kind, length, "causal") for length in (4096, 131072))
    assert one == other
    inner, states = 64 * 64, 8 * 128
    products_ = 2 * NANO.hidden_size * (3 * inner + 2 * states + 64)
    assert one == products_ + 6 * inner * 128 + 2 * (inner + 2 * states) * 4


def test_linear_attention_by_hand() -> None:
    """Qwen3-Next's shape: 16 key and 32 value heads of 128, gate and rates in the same product."""
    kind = DELTA.layer_kinds[0]
    found = parts(DELTA, kind)
    keys, values = 16 * 128, 32 * 128
    assert products(found) == {
        "linear_in": (2 * keys + 2 * values + 2 * 32, 2048),
        "linear_out": (2048, values),
    }
    assert sum(part.weights for part in found.values()) == pytest.approx(
        layer_params(DELTA, kind).total - layer_params(DELTA, kind).mlp - 2048, rel=1e-3
    )
    per_token = layer_flops_per_token(DELTA, kind, S, "causal")
    matrices = sum(2.0 * m.num_active_params for m in layer_matrices(DELTA, kind))
    assert per_token - matrices == 8 * 32 * 128 * 128 + 2 * (2 * keys + values) * 4
    assert found["delta_rule"].saved == S * (2 * keys + values) * 2


def test_gated_attention_widens_the_queries() -> None:
    found = parts(DELTA, DELTA.layer_kinds[-1])
    assert products(found)["qkv"] == (2 * 16 * 256 + 2 * 2 * 256, 2048)


def test_a_prediction_layer_of_deepseek_v3_by_hand() -> None:
    """A layer like the last, a product of 2h x h, two norms and its own; embedding and head are the model's.

    The published module: 14 B with copies of embedding and head (0.93 B each).
    """
    made = mtp_parts(sizes(V3, mtp=True), layer_parts)
    h, layer = 7168, layer_params(V3, mtp_kind(V3)).total
    held = sum(part.weights for part in made)
    assert held == pytest.approx(layer + 2 * h * h + 3 * h, rel=1e-6)
    both = num_params(V3, including=("mtp",)) + 2 * h * V3.vocab_size
    assert both == pytest.approx(13.5e9, rel=0.01)
    extra = flops_per_token(V3, S, "causal", mtp=True) - flops_per_token(V3, S, "causal")
    head = 2 * h * V3.vocab_size
    whole = layer_flops_per_token(V3, mtp_kind(V3), S, "causal") + 2 * 2 * h * h + head
    assert extra == pytest.approx(3 * whole)


def test_a_prediction_layer_keeps_its_input_and_logits() -> None:
    names = [part.name for part in mtp_parts(sizes(V3, mtp=True), layer_parts)]
    assert names[:4] == ["embedding", "mtp_embedding_norm", "mtp_hidden_norm", "mtp_proj"]
    assert names[-3:] == ["final_norm", "head", "loss"]
    (joined,) = [p for p in mtp_parts(sizes(V3, mtp=True), layer_parts) if p.name == "mtp_proj"]
    assert joined.saved == S * 2 * 7168 * 2
