"""A plan becomes a program: streams, messages, groups, FLOPs, assumptions."""

from collections import Counter

import numpy as np
import pytest

from sim.engine import simulate
from sim.metrics import mfu
from sim.program import Collective, Compute, Recv, Send
from topologies import cluster
from workloads.counts import flops_per_token
from workloads.lower import lower
from workloads.model import Model
from workloads.plan import Plan
from workloads.schedules import SCHEDULES

MODEL = Model(
    name="small", num_layers=16, hidden_size=512, num_heads=8, num_kv_heads=8, head_dim=64,
    ffn_size=2048, vocab_size=2048,
)  # fmt: skip
TIED = Model(
    name="tied", num_layers=4, hidden_size=512, num_heads=8, num_kv_heads=8, head_dim=64,
    ffn_size=2048, vocab_size=2048, tied_embeddings=True,
)  # fmt: skip


def plan(**fields) -> Plan:
    return Plan(**{"global_batch": 16, "seq_len": 512, **fields})


def replay(model: Model = MODEL, **fields):
    made = plan(**fields)
    return simulate(lower(model, made), cluster("h100-fat-tree", made.num_devices))


def test_groups_are_those_of_the_degrees_above_one() -> None:
    program = lower(MODEL, plan(tp=2, dp=4, pp=2))
    assert {axis: members.shape for axis, members in program.groups.items()} == {
        "tp": (8, 2), "dp": (4, 4), "model": (4, 4),
    }  # fmt: skip
    assert lower(MODEL, plan()).groups == {}


def test_a_script_a_pipeline_place() -> None:
    program = lower(MODEL, plan(tp=2, dp=2, pp=4))
    assert len(program.scripts) == 4
    assert program.script_of_rank.tolist() == [r for r in range(4) for _ in range(4)]
    assert [s.place for s in program.scripts] == [0, 1, 2, 3]


def test_tokens_and_flops() -> None:
    program = lower(MODEL, plan(dp=2, recompute="full"))
    tokens = 16 * 512
    assert program.tokens == tokens
    assert program.flops["full"] == flops_per_token(MODEL, 512, "full") * tokens
    assert program.flops["causal"] < program.flops["full"] < program.flops["hardware"]
    assert lower(MODEL, plan()).flops["hardware"] == program.flops["full"]


def test_uneven_layouts_are_assumptions() -> None:
    assert lower(MODEL, plan(pp=3)).assumptions == (
        "layout: embedding and head count as layers, 6 a stage",
    )
    assert lower(MODEL, plan(pp=4)).assumptions == ()


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("p", [2, 4])
def test_every_schedule_runs_and_every_microbatch_passes_every_stage(name, p) -> None:
    """No deadlock; each rank's products once a microbatch and chunk; messages both ways."""
    kind = SCHEDULES[name]
    timeline = replay(pp=p, schedule=name, chunks=kind.default_chunks)
    placement = kind.placement(p)
    for rank in range(p):
        spans = list(timeline.spans(timeline.class_of_rank(rank)))
        layers = 16 // placement.num_stages * placement.chunks
        done = Counter(s.op.name for s in spans)
        each = 16 // placement.num_directions * layers
        assert done["qkv"] == done["qkv.dgrad"] == done["qkv.wgrad"] == each
        times = [(s.action.microbatch, s.action.chunk) for s in spans if s.op.name == "qkv"]
        assert set(Counter(times).values()) == {layers // placement.chunks}
    sent = sum(
        isinstance(s.op, Send) for c in range(timeline.num_classes) for s in timeline.spans(c)
    )
    hops = placement.num_hops * (2 if placement.num_directions == 2 else 1)
    assert sent == 2 * hops * (16 // placement.num_directions)


def test_boundary_tensors_are_cut_over_tp_with_sequence_parallelism() -> None:
    def nbytes(**fields) -> set[float]:
        program = lower(MODEL, plan(tp=2, pp=2, **fields))
        return {
            op.nbytes
            for script in program.scripts
            for segments in script.streams.values()
            for segment in segments
            for op in segment.ops
            if isinstance(op, Send | Recv)
        }

    whole = 512 * 512 * 2.0
    assert nbytes(sequence_parallel=True) == {whole / 2}
    assert nbytes(software="megatron-deepspeed") == {whole}
    assert nbytes(software="megatron-2021") == {whole / 2}, "scattered, then gathered"


def test_a_blocking_pipeline_waits_for_its_sends() -> None:
    assert replay(pp=4, overlap_p2p="off").step_time > replay(pp=4, overlap_p2p="on").step_time


def test_a_tied_embedding_is_summed_over_both_ends() -> None:
    timeline = replay(TIED, pp=2)
    for rank in (0, 1):
        names = [s.op.name for s in timeline.spans(timeline.class_of_rank(rank))]
        assert names.count("embedding.grads") == 1
    alone = [s.op.name for s in replay(TIED).spans(0)]
    assert "embedding.grads" not in alone


def test_ends_on_one_rank_need_no_sum() -> None:
    """In V schedules the first rank holds embedding and head."""
    timeline = replay(TIED, pp=2, schedule="zb-v", chunks=2)
    names = [s.op.name for c in range(2) for s in timeline.spans(c)]
    assert "embedding.grads" not in names


def test_the_step_ends_with_the_optimizer() -> None:
    timeline = replay(dp=4, zero=1)
    last = max(
        (s for s in timeline.spans(0) if isinstance(s.op, Compute)), key=lambda span: span.end
    )
    assert (last.op.name, last.op.phase, last.action.kind) == ("adam", "O", "optimizer")
    reductions = [s.end for s in timeline.spans(0) if s.op.name.startswith("grads.")]
    assert max(reductions) <= last.start


def test_more_data_parallel_replicas_change_no_script() -> None:
    small, large = lower(MODEL, plan(dp=2, pp=4)), lower(MODEL, plan(dp=4, pp=4, global_batch=32))
    for a, b in zip(small.scripts, large.scripts, strict=True):
        names = [
            [getattr(op, "name", "") for segments in s.streams.values() for seg in segments for op in seg.ops]
            for s in (a, b)
        ]  # fmt: skip
        assert names[0] == names[1]
    assert np.array_equal(small.script_of_rank, [p for p in range(4) for _ in range(2)])


def test_utilisation_is_below_one_on_any_plan() -> None:
    for fields in ({}, {"tp": 4, "sequence_parallel": True}, {"dp": 8, "zero": 3}, {"pp": 4}):
        assert 0 < mfu(replay(**fields)) < 1


def test_every_microbatch_gathers_sharded_parameters_again() -> None:
    timeline = replay(dp=4, zero=3)
    gathers = [
        s for s in timeline.spans(0) if isinstance(s.op, Collective) and s.op.kind == "all_gather"
    ]
    assert len(gathers) == 4 * 2 * 18, (
        "4 microbatches, forward and backward, 16 layers and both ends"
    )
