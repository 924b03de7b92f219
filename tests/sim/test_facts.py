"""Facts of ops: sizes, groups, algorithm and slowest link."""

from sim.facts import action_facts, op_facts, plans_of, shape
from sim.kernels.shapes import Attention, Gemm
from sim.program import Action, Allocate, Compute
from tests.sim.shown import pipeline


def test_a_kernel_says_its_sizes() -> None:
    timeline = pipeline()
    op = Compute("product", Gemm(8, 4, 2, dtype="fp16"))
    values = 8 * 2 + 2 * 4 + 8 * 4
    assert op_facts(timeline, {}, 0, op) == {
        "op": "gemm",
        "shape": "m=8 n=4 k=2 fp16",
        "phase": "F",
        "flops": 2.0 * 8 * 4 * 2,
        "bytes": 2.0 * values,
    }


def test_defaults_of_a_shape_are_not_spelled_out() -> None:
    assert (
        shape(Attention(1, 2, 2, 16, 16, 8))
        == "batch=1 heads=2 kv_heads=2 seq_q=16 seq_kv=16 head_dim=8 bf16"
    )


def test_a_collective_says_its_group_and_how_it_runs() -> None:
    timeline = pipeline()
    norm = next(s.op for s in timeline.spans(0, "compute") if s.op.name == "norm")
    facts = op_facts(timeline, plans_of(timeline), 0, norm)
    assert (facts["op"], facts["axis"], facts["group"], facts["bytes"]) == (
        "all_reduce",
        "dp",
        2,
        1.0,
    )
    assert facts["algorithm"]


def test_a_send_names_the_rank_it_goes_to() -> None:
    timeline = pipeline()
    send = next(s.op for s in timeline.spans(0, "send"))
    assert op_facts(timeline, plans_of(timeline), 0, send)["to rank"] == 1


def test_unset_parts_of_an_action_are_left_out() -> None:
    assert action_facts(Action("optimizer")) == {"action": "optimizer"}
    assert action_facts(Action("F", 3, 0, 7)) == {
        "action": "F",
        "stage": 3,
        "chunk": 0,
        "microbatch": 7,
    }


def test_other_ops_have_a_kind() -> None:
    assert op_facts(pipeline(), {}, 0, Allocate("x", 1.0)) == {"op": "allocate"}
