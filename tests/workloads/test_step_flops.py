"""FLOPs of a step by convention, and those that run again, module by module, by hand."""

import pytest

from workloads.counts import flops_per_token, layer_flops_per_token
from workloads.models import model
from workloads.plan import Plan
from workloads.step_flops import model_flops, repeated_flops

S = 4096
V3, LLAMA = model("deepseek-v3"), model("llama3-8b")
H = 7168
CORE = 2.0 * 128 * (192 + 128) * S
LATENT = 2.0 * (1536 * 128 * 192 + 512 * 128 * 256)
DENSE = 2.0 * 3 * H * 18432
ROUTED = 2.0 * (H * 256 + 8 * 3 * H * 2048)
SHARED = 2.0 * 3 * H * 2048


def plan(*modules: str, **fields) -> Plan:
    chosen = {"recompute": "selective", "recompute_modules": modules} if modules else {}
    return Plan(**{"global_batch": 2, "seq_len": S, **chosen, **fields})


@pytest.mark.parametrize(
    ("modules", "forward"),
    [
        (("core_attn",), 61 * CORE),
        (("mla_up_proj",), 61 * LATENT),
        (("mlp",), 3 * DENSE),
        (("moe",), 58 * (ROUTED + SHARED)),
        (("shared_experts",), 58 * SHARED),
        (("moe", "shared_experts"), 58 * (ROUTED + SHARED)),
        (("norm", "moe_act"), 0.0),
        (("mla_up_proj", "mlp"), 61 * LATENT + 3 * DENSE),
    ],
)
def test_modules_that_run_again(modules, forward) -> None:
    """DeepSeek-V3: 61 layers of latent attention, 3 dense, 58 of 8 experts in 256 and one shared."""
    assert repeated_flops(V3, plan(*modules)) == pytest.approx(forward)
    flops = model_flops(V3, plan(*modules))
    assert flops["hardware"] - flops["full"] == pytest.approx(forward * 2 * S, rel=1e-6)


def test_full_recompute_repeats_every_layer_once() -> None:
    """Three passes become four, but for the head."""
    layer = layer_flops_per_token(LLAMA, LLAMA.layer_kinds[0], S)
    assert repeated_flops(LLAMA, plan(recompute="full")) == 32 * layer
    assert repeated_flops(LLAMA, plan(recompute="full", recompute_every=2)) == 16 * layer
    assert repeated_flops(LLAMA, plan(recompute="full", recompute_layers=8)) == 8 * layer


def test_every_other_product_is_half_of_them_and_no_attention() -> None:
    layer = layer_flops_per_token(LLAMA, LLAMA.layer_kinds[0], S)
    core = 2.0 * 32 * 2 * 128 * S
    assert repeated_flops(LLAMA, plan("op")) == pytest.approx(32 * (layer - core) / 2)


def test_nothing_runs_again_unless_asked() -> None:
    flops = model_flops(LLAMA, plan())
    assert flops["hardware"] == flops["full"] == flops_per_token(LLAMA, S) * 2 * S


def test_prediction_layers_count_in_no_convention() -> None:
    """As the DeepSeek-V3 report's MFU: 249.7 GFLOP a token, causal (385 TFLOP/s on 2,048 at 3.157 M tokens/s)."""
    assert model_flops(V3, plan(mtp=True)) == model_flops(V3, plan())
    assert model_flops(V3, plan())["causal"] / (2 * S) == pytest.approx(249.7e9, rel=0.01)


def test_products_whose_outputs_are_kept_do_not_run_again() -> None:
    """Llama 3 8B: qkv is 4096 x 6144, the way out 4096 x 4096."""
    whole = repeated_flops(LLAMA, plan(recompute="full"))
    kept = repeated_flops(LLAMA, plan(recompute="full", recompute_keeps=("qkv", "attn_out")))
    assert whole - kept == pytest.approx(32 * 2.0 * 4096 * (6144 + 4096))
