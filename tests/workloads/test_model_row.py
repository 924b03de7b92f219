"""Rows of a table of runs: sizes of the row, design of the preset; FLOPs as the table derives them."""

import pytest

from sim.errors import PlanError
from workloads.counts import flops_per_token
from workloads.model_row import model_from_row, preset_of

LLAMA = {
    "model": "llama3-70b-L12", "n_layers": "12.0", "hidden": "8192.0", "ffn_hidden": "28672.0",
    "heads": "64.0", "kv_heads": "8.0", "head_dim": "128.0", "vocab": "128256.0",
    "gated_mlp": "1.0", "seq_len": "4096.0",
}  # fmt: skip
DEEPSEEK = {
    "model": "deepseek-v3", "n_layers": "61.0", "hidden": "7168.0", "ffn_hidden": "18432.0",
    "heads": "128.0", "kv_heads": "128.0", "head_dim": "192.0", "vocab": "129280.0",
    "n_experts": "256.0", "topk": "8.0", "expert_ffn": "2048.0", "gated_mlp": "1.0",
    "seq_len": "4096.0",
}  # fmt: skip


@pytest.mark.parametrize(("convention", "tflops"), [("full", 1381.0), ("causal", 1230.2)])
def test_deepseek_row_mbridge_002(convention: str, tflops: float) -> None:
    """The table derives 1381.0 and 1230.2 TFLOP/s from 4,912 tokens/s."""
    flops = flops_per_token(model_from_row(DEEPSEEK), 4096, convention)
    assert flops * 4912 / 1e12 == pytest.approx(tflops, rel=3e-3)


def test_reduced_depth_keeps_the_rows_layers() -> None:
    shape = model_from_row(LLAMA)
    assert (shape.num_layers, shape.num_kv_heads, shape.name) == (12, 8, "llama3-70b-L12")
    short = model_from_row(DEEPSEEK | {"model": "deepseek-v3-4L", "n_layers": "4"})
    assert (short.num_layers, short.num_dense_layers, short.num_shared_experts) == (4, 1, 1)


def test_names_meet_presets_by_whole_words() -> None:
    for name, preset in (
        ("llama3.1-405b-kv16-7L", "llama3-405b"),
        ("ascend-yi-34b", "yi-34b"),
        ("mixtral-8x22b-G8T8", "mixtral-8x22b"),
        ("nemotron-3-super-120b", "nemotron-3-super-120b-a12b"),
    ):
        found = preset_of(name)
        assert found is not None
        assert found.name == preset
    assert preset_of("llama3-8x70b") is None


def test_a_name_of_no_preset_takes_the_design_its_row_describes() -> None:
    gated = model_from_row(LLAMA | {"model": "novel-1b"})
    assert (gated.positions, gated.norm, gated.tied_embeddings) == ("rotary", "rms", False)
    plain = model_from_row(LLAMA | {"model": "novel-1b", "gated_mlp": "0", "kv_heads": ""})
    assert (plain.positions, plain.norm, plain.tied_embeddings) == ("learned", "layer", True)
    assert (plain.num_kv_heads, plain.max_positions) == (64, 4096)


def test_no_shape_is_an_error_naming_the_columns() -> None:
    with pytest.raises(PlanError, match="n_layers, hidden, heads blank"):
        model_from_row({"model": "novel-1b"})
    with pytest.raises(PlanError, match="hidden='wide' must be a whole number"):
        model_from_row(LLAMA | {"hidden": "wide"})
