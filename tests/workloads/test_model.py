"""Models: published parameter counts, FLOPs by hand, rules and their messages."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from sim.errors import PlanError
from workloads.counts import (
    PARTS,
    flops_per_token,
    layer_params,
    num_active_params,
    num_params,
    scores_per_token,
)
from workloads.matrices import layer_matrices
from workloads.model import LayerKind, Model, kind_counts
from workloads.models import MODELS, model

TINY: dict[str, Any] = {
    "name": "tiny",
    "num_layers": 2,
    "hidden_size": 8,
    "num_heads": 2,
    "num_kv_heads": 1,
    "head_dim": 4,
    "ffn_size": 16,
    "vocab_size": 10,
}
PUBLISHED = {
    "llama3-8b": 8.03e9,
    "llama3-70b": 70.55e9,
    "llama3-405b": 405.85e9,
    "llama2-7b": 6.738e9,
    "llama2-70b": 68.98e9,
    "gpt3-175b": 174.6e9,
    "deepseek-v3": 671.03e9,
    "deepseek-v2": 235.74e9,
    "deepseek-llm-67b": 67.42e9,
    "mixtral-8x7b": 46.7e9,
    "mixtral-8x22b": 140.6e9,
    "qwen3-235b-a22b": 235.1e9,
    "qwen3-30b-a3b": 30.5e9,
    "palm-540b": 540.35e9,
    "palm-8b": 8.63e9,
    "gpt-oss-120b": 116.83e9,
    "gpt-oss-20b": 20.91e9,
    "gemma2-27b": 27.23e9,
    "yi-34b": 34.39e9,
    "olmo-7b": 6.89e9,
    "bloom-176b": 176_247_271_424,
    "gpt-neox-20b": 20_554_567_680,
    "nemotron-3-nano-30b-a3b": 31.6e9,
    "pangu-ultra-moe-718b": 718e9,
    "megatron-gpt-1008b": 1008.0e9,
    "megatron-gpt-145.6b": 145.6e9,
}
ACTIVE = {
    "mixtral-8x7b": 12.9e9,
    "mixtral-8x22b": 39.1e9,
    "gpt-oss-120b": 5.13e9,
    "gpt-oss-20b": 3.61e9,
    "nemotron-3-nano-30b-a3b": 3.23e9,
    "deepseek-v3": 36.63e9,
}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_counts(name: str) -> None:
    assert num_params(model(name)) == pytest.approx(PUBLISHED[name], rel=3e-3)


@pytest.mark.parametrize("name", sorted(ACTIVE))
def test_published_active_counts(name: str) -> None:
    assert num_active_params(model(name)) == pytest.approx(ACTIVE[name], rel=3e-3)


def test_every_exported_tensor_of_nemotron_3_super() -> None:
    assert num_params(model("nemotron-3-super-120b"), including=PARTS) == 123_611_033_088


def test_layer_by_hand() -> None:
    tiny = Model(**TINY)
    parts = layer_params(tiny, LayerKind("full", "dense"))
    assert parts.attention == 8 * (8 + 2 * 4) + 8 * 8
    assert parts.mlp == 3 * 8 * 16
    assert parts.norm == 2 * 8
    assert num_params(tiny) == 2 * parts.total + 2 * 80 + 8
    assert num_params(tiny, including=("embedding",)) == 80


def test_flops_by_hand() -> None:
    """2 a weight and token forward, 4 L H Q T of attention, three times that in all."""
    tiny = Model(**TINY)
    weights = 2 * (192 + 384) + 80
    assert flops_per_token(tiny, 6) == 6 * weights + 12 * 2 * 2 * 4 * 6
    assert flops_per_token(tiny, 6, "causal") == 6 * weights + 6 * 2 * 2 * 4 * 6
    assert flops_per_token(tiny, 6, head=False) == 6 * (weights - 80) + 12 * 2 * 2 * 4 * 6


def test_flops_of_narayanan_equation_3() -> None:
    """96 B s l h^2 (1 + s/6h + V/16lh) counts recompute too: four parts of which three are ours."""
    layers, hidden, seq, vocab = 96, 12288, 2048, 51200
    sizes = 24 * layers * hidden**2
    theirs = 3 * sizes * (1 + seq / (6 * hidden)) + 6 * vocab * hidden
    assert flops_per_token(model("megatron-175b"), seq) == pytest.approx(theirs, rel=1e-12)
    assert layers == model("megatron-175b").num_layers


def test_mixture_of_experts_counts_only_the_chosen() -> None:
    moe = Model(**TINY, num_experts=4, experts_per_token=2, expert_ffn_size=16)
    dense = Model(**TINY)
    extra = flops_per_token(moe, 6) - flops_per_token(dense, 6)
    assert extra == 2 * 6 * (384 + 8 * 4)
    assert num_params(moe) - num_active_params(moe) == 2 * 2 * 384


def test_window_scores() -> None:
    windowed = Model(**TINY, window_size=2, window_period=2)
    assert [kind.attention for kind in windowed.layer_kinds] == ["window", "full"]
    local = windowed.layer_kinds[0]
    assert scores_per_token(windowed, local, 8, "masked") == 2 - 4 / 16
    assert scores_per_token(windowed, local, 8, "causal") == 4
    assert scores_per_token(windowed, local, 2, "masked") == 1


def test_deepseek_v3_flops_with_mtp_as_megatron_bridge_prints() -> None:
    """1,276 TFLOP/s at 4,912 tokens/s a GPU, sequence 4,096, causal, MTP included."""
    flops = flops_per_token(model("deepseek-v3"), 4096, "causal", mtp=True)
    assert flops == pytest.approx(1276e12 / 4912, rel=1e-2)


def test_layer_kinds_of_deepseek_v3() -> None:
    mlps = [kind.mlp for kind in model("deepseek-v3").layer_kinds]
    assert mlps == ["dense"] * 3 + ["moe"] * 58


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_preset_is_consistent(name: str) -> None:
    shape = MODELS[name]
    assert sum(kind_counts(shape).values()) == len(shape.layer_kinds) == shape.num_layers
    assert 0 < num_active_params(shape) <= num_params(shape)
    for kind in kind_counts(shape):
        matrices = layer_matrices(shape, kind)
        assert all(m.inputs > 0 and m.outputs > 0 and m.active <= m.copies for m in matrices)
    assert flops_per_token(shape, 2048, "masked") <= flops_per_token(shape, 2048, "causal")
    assert flops_per_token(shape, 2048, "causal") <= flops_per_token(shape, 2048, "full")
    assert name == name.lower()


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("llama3.1-405b", "llama3-405b"),
        ("llama-3-405b", "llama3-405b"),
        ("meta-llama/Llama-3.1-405B-Instruct", "llama3-405b"),
        ("Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("gpt-3-175b", "gpt3-175b"),
        ("Llama-2-7b-hf", "llama2-7b"),
    ],
)
def test_spellings(spelling: str, name: str) -> None:
    assert model(spelling).name == name


def test_unknown_preset_suggests() -> None:
    with pytest.raises(PlanError, match="did you mean 'llama3-405b'"):
        model("llama3-406b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_layers": 0}, "num_layers=0 must be at least 1"),
        ({"hidden_size": -8}, "hidden_size=-8 must not be negative"),
        ({"num_heads": 3, "num_kv_heads": 2}, "num_kv_heads=2 does not divide num_heads=3"),
        ({"positions": "rotery"}, "did you mean 'rotary'"),
        ({"positions": "learned"}, "needs max_positions"),
        ({"experts_per_token": 2}, "without experts"),
        (
            {"num_experts": 4, "experts_per_token": 5, "expert_ffn_size": 8},
            "experts_per_token=5 must be between 1 and num_experts=4",
        ),
        ({"num_experts": 4, "experts_per_token": 2}, "needs expert_ffn_size"),
        ({"kv_lora_rank": 4}, "qk_nope_head_dim=0"),
        ({"layer_types": (LayerKind("full", "dense"),)}, "states 1 layers, num_layers=2"),
        ({"window_period": 2}, "without window_size"),
        ({"ffn_size": 0}, "ffn_size=0 but a layer is 'dense'"),
    ],
)
def test_rules_name_value_and_way_out(change: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        replace(Model(**TINY), **change)


def test_importing_the_presets_loads_nothing_heavy() -> None:
    code = "import sys, workloads.models; print({'numpy', 'pandas'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
