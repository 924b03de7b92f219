"""What a pass keeps: the activation formula of Korthikanti et al. 2022 and its variants, exactly."""

import pytest

from sim.program import Allocate, Free
from workloads.chunk import Chunk, Variant
from workloads.layers import Sizes
from workloads.layout import StageContent
from workloads.model import Model
from workloads.models import model as preset
from workloads.plan import Plan

S, B, H, A = 2048, 2, 6144, 64
GPT = preset("megatron-22b")
LLAMA = preset("llama2-7b")


def chunk(model: Model = GPT, layers: int = 2, ends: bool = False, **fields) -> Chunk:
    plan = Plan(
        **{
            "microbatch": B, "global_batch": B, "seq_len": S, "software": "megatron-2022", "dropout": True,
            "dtype": "fp16", **fields,
        }
    )  # fmt: skip
    kinds = model.layer_kinds[:layers]
    return Chunk(Sizes(model, plan), StageContent(ends, kinds, ends))


SBH, SCORES = S * B * H, 5 * A * S / H


@pytest.mark.parametrize("t", [1, 2, 8])
@pytest.mark.parametrize(
    ("fields", "formula"),
    [
        ({}, lambda t: SBH * (10 + 24 / t + SCORES / t)),
        ({"sequence_parallel": True}, lambda t: SBH / t * (34 + SCORES)),
        ({"recompute": "selective"}, lambda t: SBH * (10 + 24 / t)),
        ({"sequence_parallel": True, "recompute": "selective"}, lambda t: SBH / t * 34),
        ({"recompute": "full"}, lambda t: SBH * 2),
        (
            {"recompute": "full", "recompute_keeps": ("qkv", "attn_out")},
            lambda t: SBH * (2 + 6 / t + 2),
        ),
        ({"sequence_parallel": True, "recompute": "full"}, lambda t: SBH * 2 / t),
    ],
)
def test_activations_of_a_layer(t, fields, formula) -> None:
    """sbh (34 + 5 a s / h) and its variants: Korthikanti et al. 2022, table 2, in bytes at 16 bit."""
    assert chunk(tp=t, **fields).saved(0) == pytest.approx(formula(t), rel=1e-12)


def test_without_dropout_its_masks_and_outputs_are_not_kept() -> None:
    """Two masks of sbh outside the core; inside, the mask and the dropped-out scores: 3 of the 5."""
    assert chunk(dropout=False).saved(0) == pytest.approx(SBH * (32 + 2 * A * S / H), rel=1e-12)


def test_flash_attention_keeps_no_scores() -> None:
    """Only the logarithms of the sums, 4 bytes a query and head."""
    kept = chunk(dropout=False, software="megatron-core").saved(0)
    assert kept == SBH * 32 + 4 * S * B * A


def walk(ops) -> tuple[float, float]:
    """Bytes held after the ops, and the most on the way."""
    held = most = 0.0
    for op in ops:
        if isinstance(op, Allocate | Free):
            held += op.nbytes if isinstance(op, Allocate) else -op.nbytes
            most = max(most, held)
    return held, most


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("model", [GPT, LLAMA])
def test_a_backward_gives_back_what_the_forward_took(model, recompute) -> None:
    made = chunk(model, ends=True, recompute=recompute, software="megatron-core")
    plain = Variant()
    forward = [op for ops in made.forward(plain).values() for op in ops]
    backward = [op for ops in made.backward(plain).values() for op in ops]
    assert walk(forward)[0] > 0
    assert walk(forward + backward)[0] == pytest.approx(0.0, abs=1.0)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_a_split_backward_gives_all_back_in_two_parts(recompute) -> None:
    made = chunk(LLAMA, ends=True, recompute=recompute, software="megatron-core")
    plain = Variant()
    passes = (made.forward(plain), made.input_gradient(plain), made.weight_gradient(plain))
    steps = [[op for ops in each.values() for op in ops] for each in passes]
    assert walk(steps[0] + steps[1])[0] > 0, "inputs of the weight gradients are still there"
    assert walk(steps[0] + steps[1] + steps[2])[0] == pytest.approx(0.0, abs=1.0)


def test_recomputation_runs_the_forward_again() -> None:
    def names(recompute: str) -> list[str]:
        made = chunk(layers=1, recompute=recompute)
        return [
            op.name for op in made.backward(Variant())["compute"] if getattr(op, "phase", "") == "R"
        ]

    assert names("none") == []
    core = ["scores", "softmax", "attn_dropout", "scores_values"]
    assert [name for name in names("selective") if name in core] == core
    assert "qkv" not in names("selective")
    assert names("full")[:3] == ["attn_norm", "qkv", "scores"]
    assert names("full")[-1] == "mlp_add"


def test_recompute_layers_limits_it_to_the_first() -> None:
    made = chunk(layers=4, recompute="full", recompute_layers=1)
    assert [made.recomputes(i) for i in range(4)] == [True, False, False, False]


def test_units_are_the_embedding_the_layers_and_the_head() -> None:
    made = chunk(layers=3, ends=True)
    assert [u.name for u in made.units] == ["embedding", "layer", "layer", "layer", "head"]


def test_buckets_go_from_the_last_unit_to_the_first() -> None:
    one = chunk(layers=3, ends=True, bucket_bytes=1e15)
    assert one.buckets == ((4, 3, 2, 1, 0),)
    each = chunk(layers=3, ends=True, bucket_bytes=1.0)
    assert each.buckets == ((4,), (3,), (2,), (1,), (0,))
