"""What passes cost against each other, for schedules that are searched."""

import pytest

from workloads.chunk import Chunk
from workloads.layers import Sizes
from workloads.layout import stage_contents
from workloads.lower import lower
from workloads.models import model
from workloads.pass_times import pass_times
from workloads.plan import Plan
from workloads.schedules import Times

COMMON = {"pp": 4, "global_batch": 8, "seq_len": 4096}


def times(**changes: object) -> Times:
    plan = Plan(**{**COMMON, **changes})  # type: ignore[arg-type]
    base = model("llama2-7b")
    contents, _ = stage_contents(base, plan, plan.num_stages)
    return pass_times([Chunk(Sizes(base, plan), content) for content in contents])


def test_weight_gradients_cost_the_products_of_the_forward_and_input_gradients_attention_more() -> (
    None
):
    found = times()
    # by token: 2 x 6.6e9 parameters in products, and 32 x 4 x 4096 x 4096 / 2 in causal attention (2.5 times backward)
    products, attention = 2 * 6.6e9, 32 * 4 * 4096 * 4096 / 2
    assert found.f == 1.0
    assert found.w == pytest.approx(products / (products + attention), abs=0.01)
    assert found.b == pytest.approx((products + 2.5 * attention) / (products + attention), abs=0.01)


def test_full_recomputation_adds_a_forward_to_the_input_gradient() -> None:
    plain, full = times(), times(recompute="full")
    assert full.b - plain.b == pytest.approx(1.0, abs=0.03)  # the head does not run again
    assert full.w == plain.w


def test_only_searched_schedules_and_several_chunks_are_affected() -> None:
    base = model("llama2-7b")
    one = lower(base, Plan(schedule="interleaved", **COMMON))  # type: ignore[arg-type]
    assert any("chunks=1" in text for text in one.assumptions)
    two = lower(base, Plan(schedule="interleaved", chunks=2, **COMMON))  # type: ignore[arg-type]
    assert not any("chunks=1" in text for text in two.assumptions)
