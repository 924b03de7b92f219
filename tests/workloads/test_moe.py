"""Mixture of experts: bytes, rows, FLOPs, parameters, groups, skew and its refusals, by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.runfile import load_run
from experiments.simulation import Result, simulate_run
from sim.collectives import Communicator
from sim.errors import PlanError
from sim.kernels.shapes import Gemm, GroupedGemm
from sim.pairs import pair_exposure
from sim.program import Collective, Compute, Op, Program, Spread
from topologies import cluster
from workloads.chunk import Chunk, Variant
from workloads.counts import layer_flops_per_token, num_params
from workloads.expert_loads import expert_kinds
from workloads.layers import Sizes
from workloads.layers.part import COMPUTE, lanes
from workloads.layout import StageContent, stage_contents
from workloads.lower import lower
from workloads.model import LayerKind, Model
from workloads.models import model
from workloads.pair import interleave, side_by_side
from workloads.plan import Plan
from workloads.plan_check import check
from workloads.routing import expert_shares, rank_loads
from workloads.schedules.action import format_order, parse_order

TINY = Model(
    name="tiny",
    num_layers=4,
    hidden_size=64,
    num_heads=8,
    num_kv_heads=8,
    head_dim=8,
    ffn_size=128,
    vocab_size=256,
    num_experts=8,
    experts_per_token=2,
    expert_ffn_size=32,
    num_shared_experts=1,
    shared_ffn_size=32,
)
MOE = LayerKind("full", "moe")


def plan(**changes: object) -> Plan:
    return replace(Plan(global_batch=8, seq_len=16, dp=8, ep=4), **changes)  # type: ignore[arg-type]


def forward(model: Model, plan: Plan) -> tuple[Op, ...]:
    return Chunk(Sizes(model, plan), StageContent(False, (MOE,), False)).forward(Variant())[COMPUTE]


def exchanges(ops: tuple[Op, ...], axis: str = "ep") -> dict[str, float]:
    return {op.name: op.nbytes for op in ops if isinstance(op, Collective) and op.axis == axis}


def test_every_rank_sends_its_copies_out_and_back() -> None:
    """16 tokens x 2 experts x 64 values x 2 bytes = 4,096."""
    sent = exchanges(forward(TINY, plan()))
    assert sent == {"dispatch.all_to_all": 4096.0, "combine.all_to_all": 4096.0}


def test_dispatch_in_8_bits_and_combine_in_16() -> None:
    """One byte a value and an fp32 scale for 128 values on the way out; two bytes back."""
    sent = exchanges(forward(TINY, plan(dispatcher="deepep", dispatch_dtype="fp8")))
    assert sent == {
        "dispatch.all_to_all": 16 * 2 * 64 * (1 + 4 / 128),
        "combine.all_to_all": 4096.0,
    }


def test_all_gather_dispatcher_brings_all_tokens() -> None:
    sent = exchanges(forward(TINY, plan(dispatcher="allgather")))
    assert sent == {
        "dispatch.all_gather": 4 * 16 * 64 * 2.0,
        "combine.reduce_scatter": 4 * 16 * 64 * 2.0,
    }


def test_slices_of_experts_gather_tokens_and_sum_outputs() -> None:
    sent = exchanges(forward(TINY, plan(etp=2)), "etp")
    assert sent == {"dispatch.all_gather": 2 * 4096.0, "combine.reduce_scatter": 2 * 4096.0}


def test_capacity_scales_rows_and_bytes() -> None:
    """Padded, every expert gets its capacity; else what even routing gives, or the capacity below it."""
    for capacity, pad, share in ((1.5, "on", 1.5), (1.5, "auto", 1.0), (0.75, "auto", 0.75)):
        limited = plan(dropless=False, capacity=capacity, pad_to_capacity=pad)
        assert set(exchanges(forward(TINY, limited)).values()) == {share * 4096}


@pytest.mark.parametrize(
    "name", ["mixtral-8x7b", "deepseek-v3", "nemotron-3-super-120b-a12b", "gpt-oss-120b"]
)
def test_products_of_a_layer_are_its_model_flops(name: str) -> None:
    """Matrix FLOPs of a forward, experts balanced, equal the count from the architecture."""
    shape = model(name)
    for kind in dict.fromkeys(shape.layer_kinds):
        if kind.attention == "mamba":
            continue
        chunk = Chunk(
            Sizes(shape, Plan(global_batch=1, seq_len=4096)), StageContent(False, (kind,), False)
        )
        kernels = [op.kernel for op in chunk.forward(Variant())[COMPUTE] if isinstance(op, Compute)]
        flops = sum(k.flops for k in kernels if isinstance(k, Gemm | GroupedGemm))
        attention = 0.0
        if kind.attention != "none":
            attention = 2.0 * shape.num_heads * (shape.qk_dim + shape.v_dim) * 4096
        expected = layer_flops_per_token(shape, kind, 4096, "full") - attention
        assert flops / 4096 == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    "name", ["deepseek-v3", "qwen3-235b-a22b", "nemotron-3-super-120b-a12b", "qwen3-next-80b-a3b"]
)
def test_parameters_of_all_stages_are_the_models(name: str) -> None:
    shape, whole = model(name), Plan(global_batch=1, seq_len=4096)
    contents, _ = stage_contents(shape, whole, 1)
    units = Chunk(Sizes(shape, whole), contents[0]).units
    held = sum(unit.dense_weights + unit.expert_weights for unit in units)
    assert held == pytest.approx(num_params(shape), rel=2e-5)


def groups_of(program: Program, axis: str) -> list[list[int]]:
    return sorted(sorted(g.tolist()) for g in program.groups[axis])


def test_experts_fold_over_attention_and_reduce_over_their_own_copies() -> None:
    """Attention tp 2 x dp 4; experts ep 4 x etp 1: experts of ranks 0-3 have copies on 4-7."""
    program = lower(TINY, plan(dp=4, tp=2, sequence_parallel=True, zero=1))
    assert groups_of(program, "ep") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert groups_of(program, "edp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert groups_of(program, "dp") == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_both_copies_of_a_bidirectional_pipeline_share_states() -> None:
    program = lower(TINY, plan(dp=2, pp=4, ep=2, schedule="dualpipe", global_batch=16))
    assert groups_of(program, "dp") == [[0, 1, 6, 7], [2, 3, 4, 5]]


def test_an_item_for_several_members_crosses_to_a_host_once() -> None:
    """8 copies of a token among 4 of 8 hosts: a token crosses to 4 x (1 - (3/4)^8) x 7/8 far hosts."""
    machine = cluster("h800-fat-tree", 64)
    hosts = Communicator(machine, np.arange(64)[None])
    nbytes = 4096 * 8 * 7168 * 2.0
    limited = hosts.plan("all_to_all", nbytes, "ep", Spread(8, 0.5))
    far = 4 * (1 - 0.75**8) * 7 / 8
    assert nbytes / limited.phases[0].ceiling == pytest.approx(
        4096 * 7168 * 2 * far / 50e9, rel=0.03
    )
    free = hosts.plan("all_to_all", nbytes, "ep", Spread(8))
    every = hosts.plan("all_to_all", nbytes, "pairwise")
    assert limited.alone < free.alone < every.alone


def test_a_member_with_more_experts_tokens_is_the_bottleneck() -> None:
    machine = cluster("h100-host", 8)
    host = Communicator(machine, np.arange(8)[None])
    even = host.plan("all_to_all", 2.0**26, "ep", Spread(1, shares=(0.125,) * 8))
    skewed = host.plan("all_to_all", 2.0**26, "ep", Spread(1, shares=(0.5, *(0.5 / 7,) * 7)))
    back = host.plan(
        "all_to_all", 2.0**26, "ep", Spread(1, shares=(0.5, *(0.5 / 7,) * 7), back=True)
    )
    # member 0 gets half of what the other seven send: 7 x 0.5 against 7/8 when even
    assert even.phases[0].ceiling / skewed.phases[0].ceiling == pytest.approx(4.0)
    assert back.phases[0].ceiling == pytest.approx(skewed.phases[0].ceiling)


def test_backward_pairs_with_the_next_forward() -> None:
    order = parse_order("F0.0 BW0.0 F0.1 BW0.1 F0.2 BW0.2")
    assert format_order(side_by_side(order)) == "F0.0 F0.1&BW0.0 F0.2&BW0.1 BW0.2"


def test_halves_of_a_pair_take_turns() -> None:
    """The backward's first block goes first; each transfer travels while the other half computes."""

    def kernel(name: str) -> Compute:
        return Compute(name, Gemm(1, 1, 1))

    def trip(name: str) -> Collective:
        return Collective(name, "all_to_all", "ep", 1.0)

    body = interleave(
        lanes(kernel("f1"), trip("out"), kernel("f2")),
        lanes(kernel("b1"), trip("back"), kernel("b2")),
    )
    assert [op.name for op in body["compute"] if isinstance(op, Compute)] == [
        "b1",
        "f1",
        "b2",
        "f2",
    ]
    assert [op.name for op in body["ep.pair"] if isinstance(op, Collective)] == ["back", "out"]


def shown(run: str, *changes: str) -> Result:
    return simulate_run(load_run(run, changes))


SMALL = (
    "model.num_layers=8", "model.num_dense_layers=0", "plan.pp=4", "plan.global_batch=256",
    "cluster.num_devices=64", "plan.ep=16", "model.num_mtp_layers=0", "plan.mtp=false",
)  # fmt: skip


def test_dualpipe_hides_travel_in_pairs_and_beats_1f1b() -> None:
    """Eight layers of DeepSeek-V3 on four ranks: under 8 % of a pair exposed (DeepSeek's public trace: 3.3 %)."""
    result = shown("deepseek-v3", *SMALL)
    exposed = pair_exposure(result.timeline)
    assert exposed is not None
    assert exposed < 0.08
    plain = shown("deepseek-v3", *SMALL, "plan.schedule=1f1b").timeline
    assert pair_exposure(plain) is None
    assert plain.step_time > result.timeline.step_time
    for part in result.parts:
        assert sum(part.values()) == pytest.approx(result.timeline.step_time, rel=1e-9)


def test_dualpipe_does_so_on_the_stated_plan() -> None:
    """2,048 H800: the exposed part of a pair is under 8 %, and 1F1B's step longer."""
    result = shown("deepseek-v3")
    summary = result.summary()
    assert 0.0 < summary["pair_exposed_fraction"] < 0.08
    assert summary["num_params"] == pytest.approx(671.03e9, rel=1e-4)
    assert summary["num_active_params"] == pytest.approx(36.6e9, rel=2e-3)
    assert shown("deepseek-v3", "plan.schedule=1f1b").timeline.step_time > result.timeline.step_time


def test_batch_level_overlap_shortens_the_step() -> None:
    alone = ("plan.pp=1", "plan.schedule=1f1b", "cluster.num_devices=16", "model.num_layers=4",
             "plan.software=megatron-core-graphs")  # fmt: skip
    serial = shown("deepseek-v3", *SMALL, *alone)
    overlapped = shown("deepseek-v3", *SMALL, *alone, "plan.overlap_ep=on")
    assert overlapped.timeline.step_time < 0.93 * serial.timeline.step_time
    assert overlapped.mean["exposed.ep"] < 0.4 * serial.mean["exposed.ep"]


def test_shared_experts_hide_travel() -> None:
    alone = ("plan.pp=1", "plan.schedule=1f1b", "cluster.num_devices=16", "model.num_layers=4")
    serial = shown("deepseek-v3", *SMALL, *alone)
    beside = shown("deepseek-v3", *SMALL, *alone, "plan.overlap_shared=on")
    assert beside.mean["exposed.ep"] < serial.mean["exposed.ep"]
    assert beside.timeline.step_time < serial.timeline.step_time


def test_zipf_shares_by_hand() -> None:
    shares = expert_shares("zipf:1", 4, layer=0)
    assert sorted(shares, reverse=True) == pytest.approx([12 / 25, 6 / 25, 4 / 25, 3 / 25])
    assert not np.array_equal(shares, expert_shares("zipf:1", 4, layer=1))


def test_loads_of_ranks_by_hand() -> None:
    """Experts get 4, 2, 1, 1 of 8: rank 0 three halves of the mean, its fullest expert twice."""
    first, second = rank_loads(np.array([4, 2, 1, 1]) / 8, ep=2)
    assert (first.here, first.largest, first.shares) == (1.5, 2.0, (0.75, 0.25))
    assert (second.here, second.largest) == (0.5, 0.5)


def test_a_capacity_drops_what_an_expert_gets_above_it() -> None:
    """Of 4, 2, 1, 1 (mean 2) a capacity of 1.5 keeps 3, 2, 1, 1: 7 of 8; rank 0 then has 5 of 7."""
    first, second = rank_loads(np.array([4, 2, 1, 1]) / 8, ep=2, capacity=1.5)
    assert first.kept == second.kept == pytest.approx(7 / 8)
    assert first.shares == pytest.approx((5 / 7, 2 / 7))
    assert (first.here, first.largest) == pytest.approx((10 / 7, 12 / 7))
    padded = rank_loads(np.array([4, 2, 1, 1]) / 8, ep=2, capacity=1.5, padded=True)
    assert padded[0] == padded[1] == (1.0, 1.0, (0.5, 0.5), pytest.approx(7 / 8))


def test_no_expert_gets_more_than_one_copy_a_token(tmp_path: Path) -> None:
    """Two of 8 experts a token: at most half of the copies, and the others share the rest as before."""
    steep = expert_shares("zipf:3", 8, layer=0, chosen=2)
    assert steep.max() == 0.5
    assert steep.sum() == pytest.approx(1.0)
    rest = np.sort(steep)[::-1][1:] / 0.5
    assert rest == pytest.approx(np.arange(2, 9.0) ** -3 / (np.arange(2, 9.0) ** -3).sum())
    assert expert_shares("zipf:9", 4, layer=0, chosen=4) == pytest.approx([0.25] * 4)
    drawn = expert_shares("draw:7:0.01", 8, layer=0, chosen=3)
    assert drawn.max() == pytest.approx(1 / 3)
    assert drawn.sum() == pytest.approx(1.0)
    path = tmp_path / "counts.csv"
    path.write_text("6,2,1,1", encoding="utf-8")
    assert expert_shares(f"file:{path}", 4, layer=0).max() == 0.6
    with pytest.raises(PlanError, match=r"60.0% .* to expert 0, .* experts_per_token=2 .* 50.0%"):
        expert_shares(f"file:{path}", 4, layer=0, chosen=2)


def test_ranks_that_get_as_much_are_one_class(tmp_path: Path) -> None:
    """Experts of ranks 0 and 2 get 3 and 1, of ranks 1 and 3 2 and 2; padding makes all alike."""
    path = tmp_path / "counts.csv"
    path.write_text("3,1,2,2,3,1,2,2", encoding="utf-8")
    uneven = plan(routing=f"file:{path}")
    assert expert_kinds(TINY, uneven).tolist() == [0, 1, 0, 1]
    assert len(lower(TINY, uneven).scripts) == 2
    limited = replace(uneven, dropless=False, capacity=1.0)
    assert len(lower(TINY, replace(limited, pad_to_capacity="on")).scripts) == 1
    assert expert_kinds(TINY, limited).tolist() == [0, 1, 0, 1]
    assert lower(TINY, limited).assumptions[-1] == (
        f"capacity=1 with routing=file:{path} drops 12.5% of token copies; mfu counts them"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"capacity": 0.8}, "less than the 1 that even routing needs, with routing=uniform drops 20.0%"),
        ({"capacity": 1.25}, "drops no token; without padding it has no effect"),
        ({"capacity": 1.25, "pad_to_capacity": "on"}, "drops no token; experts are filled up to it"),
    ],
)  # fmt: skip
def test_what_a_capacity_drops_is_told(changes: dict[str, object], words: str) -> None:
    assert words in lower(TINY, plan(dropless=False, **changes)).assumptions[-1]


def test_a_histogram_routes_by_layer(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("1,1,1,1\n3,1,0,0\n", encoding="utf-8")
    assert expert_shares(f"file:{path}", 4, layer=1).tolist() == [0.75, 0.25, 0, 0]
    with pytest.raises(PlanError, match="has 2 lines, but layer 2"):
        expert_shares(f"file:{path}", 4, layer=2)
    with pytest.raises(PlanError, match="4 columns; give num_experts=8"):
        expert_shares(f"file:{path}", 8, layer=0)


SKEWED = (
    "cluster.num_devices=8",
    "plan.ep=8",
    "plan.pp=1",
    "model.num_layers=2",
    "plan.global_batch=8",
    "plan.chunks=1",
)


def test_skew_unfolds_ranks_and_costs_time() -> None:
    run = ("mixtral-8x7b", *SKEWED, "plan.schedule=1f1b")
    even, skewed = shown(*run), shown(*run, "plan.routing=zipf:1")
    assert even.timeline.num_classes == 1
    assert skewed.timeline.num_classes == 8
    assert skewed.timeline.step_time > 1.5 * even.timeline.step_time
    assert max(p.nbytes for p in skewed.peaks) > max(p.nbytes for p in even.peaks)
    saved = skewed.timeline.step_time - even.timeline.step_time
    assert even.balance == {}
    assert skewed.balance["balance_saves_s"] == pytest.approx(saved)
    limited = shown(
        *run, "plan.routing=zipf:1", "plan.dropless=false", "plan.capacity=1.25"
    ).timeline
    assert even.timeline.step_time < limited.step_time < skewed.timeline.step_time
    flat = shown(*run, "plan.routing=zipf:0")
    assert flat.timeline.step_time == pytest.approx(even.timeline.step_time, rel=0.02)


def test_a_draw_is_the_same_every_time() -> None:
    run = ("mixtral-8x7b", *SKEWED, "plan.schedule=1f1b")
    first, again, other = (shown(*run, f"plan.routing=draw:{seed}") for seed in (1, 1, 2))
    assert first.timeline.step_time == again.timeline.step_time != other.timeline.step_time


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dp": 6, "ep": 3, "global_batch": 6}, r"ep=3 does not divide num_experts=8; choose ep from 1, 2, 4, 8"),
        ({"etp": 2, "ep": 8}, r"ep=8 x etp=2 does not divide tp x cp x dp = 8"),
        ({"dispatcher": "alltoall", "ep": 1}, r"dispatcher='alltoall' with ep=1 has no effect"),
        ({"dispatch_dtype": "fp8", "ep": 1}, r"dispatch_dtype='fp8' with ep=1 has no effect"),
        ({"pad_to_capacity": "on"}, r"pad_to_capacity='on' with dropless=true has no effect"),
        ({"capacity": 0.5}, r"capacity=0.5 with dropless=true"),
        ({"dropless": False}, r"capacity=0.0 with dropless=false: give a capacity above 0"),
        ({"routing": "zipf:x"}, r"routing='zipf:x' needs the exponent"),
        ({"routing": "zipf:-1"}, r"routing='zipf:-1' needs the exponent, which must be 0 or more"),
        ({"routing": "draw:1:0"}, r"routing='draw:1:0' needs a concentration, which must be above 0"),
        ({"routing": "draw:1:-2"}, r"routing='draw:1:-2' needs a concentration, which must be above 0"),
        ({"routing": "draw:-1"}, r"needs a whole number as seed"),
        ({"routing": "uniform:2"}, r"uniform takes no argument"),
        ({"routing": "skewed"}, r"routing"),
        ({"dispatcher": "deeep"}, r"dispatcher"),
        ({"overlap_ep": "on", "ep": 1}, r"overlap_ep='on' has no effect here: it needs ep above 1"),
        ({"overlap_ep": "on", "pp": 2}, r"use schedule='interleaved'"),
        ({"recompute_modules": ("moe",)}, r"set recompute='selective'"),
        ({"recompute": "selective", "recompute_modules": ("mla_up_proj",)}, r"'mla_up_proj', which tiny does not have"),
        ({"mtp": True}, r"tiny has no multi-token-prediction layers"),
        ({"cp": 3, "global_batch": 24, "dp": 8, "ep": 4}, r"cp=3 does not divide seq_len=16"),
    ],
)  # fmt: skip
def test_refusals(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        check(plan(**changes), TINY)


def test_more_experts_a_token_than_there_are() -> None:
    with pytest.raises(PlanError, match="experts_per_token=9 must be between 1 and num_experts=8"):
        replace(TINY, experts_per_token=9)


def test_xla_sorts_and_unsorts_in_passes_of_their_own() -> None:
    """With k copies a token of a bytes: out 3 k a (rows come in pairs); back as much, and their sum (k + 1) a.

    Backward: a spread, a read for the weights' gradient and a gather, (k + 1 + k + 3 k) a; back as forward.
    """
    alone = plan(ep=1, software="xla", recompute="none")
    chunk = Chunk(Sizes(TINY, alone), StageContent(False, (MOE,), False))
    ops = chunk.forward(Variant())[COMPUTE] + chunk.backward(Variant())[COMPUTE]
    moved = {
        op.name: op.kernel.nbytes for op in ops if isinstance(op, Compute) and "permute" in op.name
    }
    token = 16 * TINY.hidden_size * 2.0
    assert moved == {
        "dispatch.permute": 6 * token,
        "combine.permute": 9 * token,
        "combine.bwd.permute": 11 * token,
        "dispatch.bwd.permute": 9 * token,
    }


def test_xla_fills_experts_of_a_fixed_capacity_by_masks() -> None:
    """8 experts of 1.5 x 16 x 2 / 8 = 6 places a sequence of 16 tokens: (48 x 16) times (16 x 64); back, twice."""
    alone = plan(ep=1, software="xla", recompute="none", dropless=False, capacity=1.5)
    chunk = Chunk(Sizes(TINY, alone), StageContent(False, (MOE,), False))
    ops = chunk.forward(Variant())[COMPUTE] + chunk.backward(Variant())[COMPUTE]
    masks = {
        op.name: op.kernel for op in ops if isinstance(op, Compute) and op.name.endswith("mask")
    }
    once, twice = Gemm(48, 64, 16, 1), Gemm(48, 64, 16, 2)
    assert masks == {
        "dispatch.mask": once, "combine.mask": once, "combine.bwd.mask": twice, "dispatch.bwd.mask": once,
    }  # fmt: skip
    assert not any("permute" in op.name for op in ops if isinstance(op, Compute))
