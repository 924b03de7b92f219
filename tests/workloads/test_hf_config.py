"""config.json readers: parameter counts are those of the published checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.errors import PlanError
from workloads.counts import num_params
from workloads.hf_config import model_from_hf
from workloads.model import LayerKind

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
