"""config.json readers: parameter counts are those of the published checkpoints."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sim.errors import PlanError
from workloads.counts import num_active_params, num_params
from workloads.hf_config import model_from_hf
from workloads.model import LayerKind
from workloads.models import MODELS

CONFIGS = Path(__file__).parent / "configs"
COUNTS = {
    "llama3-8b": 8_030_261_248,
    "gpt2": 124_439_808,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-30b-a3b": 30_532_122_624,
    "deepseek-v3": 671_026_419_200,
    "deepseek-v2-lite": 15_706_484_224,
    "gemma2-9b": 9_241_705_984,
    "gemma3-4b": 3_880_263_168,
    "falcon-7b": 6_921_720_704,
    "falcon-40b": 41_303_293_952,
    "gpt-neox-20b": 20_554_567_680,
    "gpt-j-6b": 6_050_882_784,
    "bloom-7b1": 7_069_016_064,
    "opt-6.7b": 6_658_473_984,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "olmo-7b": 6_888_095_744,
    "olmo2-7b": 7_298_617_344,
    "gpt-oss-20b": 20_914_757_184,
    "llama4-scout": 107_769_861_120,
    "llama4-maverick": 400_711_848_960,
    "mpt-7b": 6_649_286_656,
    "qwen3-next-80b-a3b": 79_674_391_296,
    "nemotron-3-nano-30b": 31_577_940_288,
    "dbrx": 131_596_523_520,
    "olmoe-1b-7b": 6_919_161_856,
    "qwen-7b": 7_721_324_544,
    "chatglm3-6b": 6_243_584_000,
    "starcoder2-7b": 7_173_923_840,
}


def config(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text())
    return loaded


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_counts_of_published_checkpoints(name: str) -> None:
    model, _ = model_from_hf(config(name), name)
    assert num_params(model) == COUNTS[name]


def test_every_fixture_is_tested() -> None:
    assert {path.stem for path in CONFIGS.glob("*.json")} == set(COUNTS)


def test_interleaved_mixtures_and_windows() -> None:
    maverick, notes = model_from_hf(config("llama4-maverick"))
    assert [kind.mlp for kind in maverick.layer_kinds[:4]] == ["dense", "moe", "dense", "moe"]
    assert any("vision_config" in note for note in notes)
    gemma, _ = model_from_hf(config("gemma2-9b"))
    assert gemma.layer_kinds[:2] == (LayerKind("window", "dense"), LayerKind("full", "dense"))
    deepseek, _ = model_from_hf(config("deepseek-v3"))
    assert (deepseek.num_dense_layers, deepseek.num_mtp_layers, deepseek.qk_dim) == (3, 1, 192)


def test_dense_layers_in_the_middle() -> None:
    text = config("qwen3-30b-a3b") | {"num_hidden_layers": 4, "mlp_only_layers": [1]}
    model, _ = model_from_hf(text)
    assert [kind.mlp for kind in model.layer_kinds] == ["moe", "dense", "moe", "moe"]


def test_missing_ties_are_assumed_by_model_type_and_listed() -> None:
    text = config("gemma2-9b")
    model, notes = model_from_hf(text)
    assert model.tied_embeddings
    assert any("tie_word_embeddings is absent: True" in note for note in notes)


@pytest.mark.parametrize("kind", ["rwkv", "t5", "mamba2", "bert", "whisper", "openelm"])
def test_refused_by_name(kind: str) -> None:
    with pytest.raises(PlanError, match=f"architecture '{kind}' cannot be represented"):
        model_from_hf({"model_type": kind, "hidden_size": 512})


def test_encoder_decoder_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(PlanError, match="encoder-decoder"):
        model_from_hf({"model_type": "new", "is_encoder_decoder": True})


@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads"]
)
def test_missing_key_is_named(key: str) -> None:
    text = config("llama3-8b")
    del text[key]
    with pytest.raises(PlanError, match=key):
        model_from_hf(text)


def test_missing_mlp_width_is_named_where_nothing_implies_it() -> None:
    text = config("llama3-8b")
    del text["intermediate_size"]
    with pytest.raises(PlanError, match="intermediate_size"):
        model_from_hf(text)


def test_unknown_model_type_is_read_and_said() -> None:
    model, notes = model_from_hf(config("llama3-8b") | {"model_type": "novel"})
    assert num_params(model) == COUNTS["llama3-8b"]
    assert any("'novel' is not known" in note for note in notes)


def test_node_limited_routing_is_read() -> None:
    text = config("deepseek-v3")
    model, notes = model_from_hf(text)
    assert (model.num_routing_groups, model.routed_groups_per_token) == (8, 4)
    assert not notes
    greedy, _ = model_from_hf(text | {"topk_method": "greedy"})
    assert greedy.num_routing_groups == 0
    one, _ = model_from_hf(text | {"n_group": 1, "topk_group": 1})
    assert one.num_routing_groups == 0
    del text["topk_group"]
    model, notes = model_from_hf(text)
    assert model.num_routing_groups == 0
    assert "topk_group is absent: a token reaches experts of all 8 groups" in notes


def test_groups_that_do_not_divide_experts_are_refused() -> None:
    with pytest.raises(PlanError, match=r"num_routing_groups=7 .* must divide num_experts=256"):
        model_from_hf(config("deepseek-v3") | {"n_group": 7})


@pytest.mark.parametrize(
    ("keys", "mixtures"),
    [
        ({"moe_layer_freq": 2}, [4, 6]),
        ({"moe_layer_freq": [0, 1, 1, 0, 0, 0, 0, 1]}, [1, 2, 7]),
        ({"first_k_dense_replace": 5}, [5, 6, 7]),
        ({"moe_layer_freq": None, "moe_layer_interval": 3, "first_k_dense_replace": 0}, [2, 5]),
        ({"moe_layer_freq": None, "moe_layer_start_index": 1, "moe_layer_end_index": 4,
          "first_k_dense_replace": None}, [1, 2, 3, 4]),
        ({"moe_layer_freq": None, "moe_layer_end_index": -1}, [3, 4, 5, 6, 7]),
    ],
)  # fmt: skip
def test_which_layers_are_mixtures(keys, mixtures) -> None:
    model, _ = model_from_hf(config("deepseek-v3") | {"num_hidden_layers": 8} | keys)
    assert [i for i, kind in enumerate(model.layer_kinds) if kind.mlp == "moe"] == mixtures


def test_what_a_config_says_about_experts_in_vain_is_listed() -> None:
    known = {"norm_topk_prob": True, "router_aux_loss_coef": 0.001, "expert_capacity": 0}
    _, notes = model_from_hf(config("deepseek-v3") | known)
    assert not notes
    _, notes = model_from_hf(config("deepseek-v3") | {"zero_expert_num": 4})
    assert notes == ("zero_expert_num=4 is not represented: experts are read without it",)


def test_a_frequency_list_too_short_is_refused() -> None:
    with pytest.raises(PlanError, match=r"moe_layer_freq states 2 layers of 61; give one number"):
        model_from_hf(config("deepseek-v3") | {"moe_layer_freq": [0, 1]})


def test_more_experts_a_token_than_there_are_is_refused() -> None:
    with pytest.raises(PlanError, match=r"experts_per_token=9 must be between 1 and num_experts=8"):
        model_from_hf(config("mixtral-8x7b") | {"num_experts_per_tok": 9})


def test_a_mixture_without_a_choice_is_named() -> None:
    text = config("mixtral-8x7b")
    del text["num_experts_per_tok"]
    with pytest.raises(PlanError, match="num_experts_per_tok"):
        model_from_hf(text)


ODD = (
    float("nan"),
    float("inf"),
    -1,
    0,
    0.5,
    1e30,
    "x",
    "",
    [],
    [1, 2],
    [[1]],
    {},
    {"a": 1},
    True,
    False,
)


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_an_odd_value_of_any_key_is_read_or_refused(name: str) -> None:
    whole = config(name)
    inner = whole.get("text_config") or whole
    for key in inner:
        for value in ODD:
            changed = inner | {key: value}
            with suppress(PlanError):
                model_from_hf(whole | {"text_config": changed} if inner is not whole else changed)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"hidden_size": float("nan")}, r"hidden_size=nan must be a whole number; correct"),
        ({"vocab_size": float("inf")}, r"vocab_size=inf must be a whole number; correct"),
        ({"num_hidden_layers": 1e30}, r"num_layers=1e\+30 must be at most"),
        ({"tie_word_embeddings": "false"}, r"tie_word_embeddings='false' must be true or false"),
        ({"layer_types": ["full_attention"] * 3}, r"layer_types states 3 layers, num_hidden_layers=32"),
        ({"layer_types": ["full_attention"] * 40}, r"layer_types states 40 layers, num_hidden_layers=32"),
        ({"layer_types": 3}, r"layer_types=3 must be a list"),
        ({"num_experts": 4, "num_experts_per_tok": 2},
         r"num_experts=4 without the width of one; intermediate_size=14336 is the width of a dense MLP; add moe_inter"),
        ({"architectures": ["Mamba2ForCausalLM"]}, r"architecture 'Mamba2ForCausalLM' cannot be represented"),
        ({"architectures": ["KimiLinearForCausalLM"]}, r"'KimiLinearForCausalLM' cannot be represented"),
        ({"cross_attention_layers": [3, 8]}, r"'llama' cannot be represented \(cross_attention_layers: .*image"),
        ({"use_cla": True}, r"use_cla: keys and values that layers share"),
        ({"linear_attn_config": {"kda_layers": [1]}}, r"linear_attn_config: delta attention"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        model_from_hf(config("llama3-8b") | keys)


@pytest.mark.parametrize(
    "kind", ["mllama", "mllama_text_model", "hunyuan_v1_moe", "kimi_linear", "minimax_m1"]
)
def test_more_refused_by_name(kind: str) -> None:
    with pytest.raises(PlanError, match=f"architecture '{kind}' cannot be represented"):
        model_from_hf(config("llama3-8b") | {"model_type": kind})


def test_a_part_that_is_off_is_no_reason() -> None:
    off = {"use_cla": False, "cross_attention_layers": [], "linear_attn_config": None}
    assert num_params(model_from_hf(config("llama3-8b") | off)[0]) == COUNTS["llama3-8b"]


def test_n_embed_is_the_width_of_bloom() -> None:
    text = config("bloom-7b1")
    width = text.pop("hidden_size", None) or text.pop("n_embd", None) or text.pop("n_embed")
    model, _ = model_from_hf(text | {"n_embed": width})
    assert num_params(model) == COUNTS["bloom-7b1"]


def test_defaults_of_gemma3_are_listed() -> None:
    text = config("gemma3-4b")
    for key in ("vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim"):
        del text["text_config"][key]
    model, notes = model_from_hf(text)
    assert num_params(model) == COUNTS["gemma3-4b"]
    for stated in ("vocab_size is absent: 262208", "num_attention_heads is absent: 8"):
        assert f"{stated}, the default of this model_type" in notes
    assert "num_key_value_heads is absent: 4, the default of this model_type" in notes
    assert "head_dim is absent: 256, the default of this model_type" in notes


def test_value_heads_of_minicpm3() -> None:
    """Source: openbmb/MiniCPM3-4B config.json; 4.07e9 parameters, tied."""
    text = {
        "model_type": "minicpm3", "hidden_size": 2560, "intermediate_size": 6400,
        "num_attention_heads": 40, "num_hidden_layers": 62, "num_key_value_heads": 40,
        "q_lora_rank": 768, "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
        "vocab_size": 73448,
    }  # fmt: skip
    model, notes = model_from_hf(text)
    assert model.v_head_dim == 64
    assert num_params(model) / 1e9 == pytest.approx(4.07, rel=0.003)
    assert "v_head_dim is absent: 64 = hidden_size / num_heads" in notes
    with pytest.raises(PlanError, match="v_head_dim"):
        model_from_hf(text | {"model_type": "deepseek_v2"})


def test_chunks_of_llama4() -> None:
    for keys in ({}, {"no_rope_layers": []}, {"no_rope_layers": [1, 1, 1, 0] * 12}):
        text = config("llama4-scout")
        text["text_config"] |= {"moe_layers": list(range(48))} | keys
        model, notes = model_from_hf(text, "llama4-scout")
        assert model.layer_kinds == MODELS["llama4-scout"].layer_kinds
        assert not any("interleave_moe_layer_step" in note for note in notes)


@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-v2-lite", "gpt-oss-20b", "llama4-scout"])
def test_active_parameters_are_the_presets(name: str) -> None:
    model, _ = model_from_hf(config(name), name)
    assert num_active_params(model) == num_active_params(MODELS[name])


def test_an_unknown_type_is_llama_like() -> None:
    text = config("llama3-8b") | {"model_type": "novel"}
    del text["hidden_act"], text["tie_word_embeddings"]
    model, notes = model_from_hf(text)
    assert model.gated_mlp
    assert not model.tied_embeddings
    assert "no activation is stated: a gated MLP, as in Llama's design" in notes
    assert "tie_word_embeddings is absent: False, as in Llama's design" in notes


def test_cohere2_ties_and_mixes_windows() -> None:
    """Source: CohereLabs/c4ai-command-r7b-12-2024 config.json; 8.03e9 parameters."""
    text = {
        "model_type": "cohere2", "hidden_size": 4096, "intermediate_size": 14336,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "head_dim": 128,
        "sliding_window": 4096, "vocab_size": 256000, "hidden_act": "silu",
    }  # fmt: skip
    model, notes = model_from_hf(text)
    assert num_params(model) / 1e9 == pytest.approx(8.03, rel=0.003)
    assert [k.attention for k in model.layer_kinds[:4]] == ["window", "window", "window", "full"]
    assert any("tie_word_embeddings is absent: True" in note for note in notes)


def test_layers_of_a_window_without_one_are_listed() -> None:
    model, notes = model_from_hf(config("llama3-8b") | {"layer_types": ["sliding_attention"] * 32})
    assert model.layer_kinds[0].attention == "full"
    assert "sliding_window is absent: layers of a window attend to everything" in notes


@pytest.mark.parametrize(
    ("text", "total", "active"),
    [
        # microsoft/Phi-3.5-MoE-instruct: 42B, 6.6B active
        ({"model_type": "phimoe", "hidden_size": 4096, "intermediate_size": 6400, "num_attention_heads": 32,
          "num_key_value_heads": 8, "num_hidden_layers": 32, "num_local_experts": 16, "num_experts_per_tok": 2,
          "vocab_size": 32064, "attention_bias": True, "tie_word_embeddings": False}, 41.87, 6.64),
        # MiniMaxAI/MiniMax-M2: 228.7B
        ({"model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536, "num_attention_heads": 48,
          "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 62, "num_local_experts": 256,
          "num_experts_per_tok": 8, "vocab_size": 200064, "tie_word_embeddings": False}, 228.7, 11.03),
    ],
)  # fmt: skip
def test_mixtures_whose_one_width_is_an_experts(text, total, active) -> None:
    model, notes = model_from_hf(text)
    assert num_params(model) / 1e9 == pytest.approx(total, rel=0.001)
    assert num_active_params(model) / 1e9 == pytest.approx(active, rel=0.001)
    assert not notes
