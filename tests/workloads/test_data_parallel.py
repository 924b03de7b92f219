"""Memory of ZeRO and bytes it moves, against the papers' closed forms."""

from dataclasses import replace

import pytest

from sim.engine import simulate
from sim.metrics import communication_volume
from sim.program import Collective
from tests.sim.hand_made import star
from topologies import cluster
from workloads.chunk import Chunk
from workloads.data_parallel import Sharding, held_states
from workloads.layers import Sizes
from workloads.layout import StageContent
from workloads.lower import lower
from workloads.model import Model
from workloads.models import model as preset
from workloads.plan import Plan

N = 8
SMALL = Model(
    name="small", num_layers=4, hidden_size=512, num_heads=8, num_kv_heads=8, head_dim=64,
    ffn_size=2048, vocab_size=2048,
)  # fmt: skip


def states(model: Model, **fields) -> dict[str, float]:
    """Bytes a rank holds of a model that is not cut otherwise."""
    plan = Plan(**{"global_batch": 64, "seq_len": 1024, **fields})
    sizes = Sizes(model, plan)
    whole = Chunk(sizes, StageContent(embedding=True, layers=model.layer_kinds, head=True))
    return held_states(sizes, [whole], Sharding(plan))


def parameters(model: Model) -> float:
    return states(model, software="megatron-2021")["parameters"] / 2


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_memory_of_a_7_5b_model_on_64_devices(zero, gigabytes) -> None:
    """2 + 2 + 12 bytes a parameter, the last, last two or all of them over 64: Rajbhandari et al. 2020, figure 1."""
    base = preset("megatron-gpt-7.5b")
    held = states(base, dp=64, zero=zero, dtype="fp16", software="megatron-2021")
    scale = 7.5e9 / parameters(base)
    assert sum(held.values()) * scale / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_gradients_in_fp32_cost_two_more_bytes() -> None:
    held = states(SMALL, dp=8, software="megatron-2022")
    p = parameters(SMALL)
    assert held == {"parameters": 2 * p, "gradients": 4 * p, "optimizer": 12 * p}


def test_fp32_training_needs_no_master_copy() -> None:
    p = parameters(SMALL)
    held = states(SMALL, dtype="fp32", software="torch-fsdp")
    assert held == {"parameters": 4 * p, "gradients": 4 * p, "optimizer": 8 * p}


def test_hsdp_spreads_states_over_its_shards_only() -> None:
    p = parameters(SMALL)
    held = states(SMALL, dp=8, zero=3, shard=2, dtype="fp16", software="megatron-2021")
    assert sum(held.values()) == pytest.approx(16 * p / 2)


def volume(**fields) -> float:
    """Values a rank sends over dp in one step, a parameter."""
    plan = Plan(
        **{
            "dp": N,
            "global_batch": N,
            "seq_len": 256,
            "software": "megatron-2022",
            "dtype": "fp16",
            **fields,
        }
    )
    timeline = simulate(lower(SMALL, plan), cluster("h100-fat-tree", N))
    sent = communication_volume(timeline, 0)
    return sum(v for axis, v in sent.items() if axis.startswith("dp")) / 2 / parameters(SMALL)


@pytest.mark.parametrize("overlap", ["on", "off"])
@pytest.mark.parametrize(("zero", "times"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_bytes_moved_a_step(zero, times, overlap) -> None:
    """2 x parameters x (n-1)/n; 3 with sharded parameters (Rajbhandari et al. 2020, section 7)."""
    moved = volume(zero=zero, overlap_grad_reduce=overlap, overlap_param_gather=overlap)
    assert moved == pytest.approx(times * (N - 1) / N, rel=1e-9)


def test_keeping_gathered_parameters_saves_a_gather() -> None:
    assert volume(zero=3, reshard=False) == pytest.approx(2 * (N - 1) / N, rel=1e-9)


@pytest.mark.parametrize("overlap", ["on", "off"])
@pytest.mark.parametrize(("zero", "times"), [(0, 2), (1, 2), (2, 5), (3, 12)])
def test_gradient_accumulation(zero, times, overlap) -> None:
    """Four microbatches: unsharded gradients accumulate; sharded ones are reduced, parameters gathered, each time."""
    moved = volume(
        zero=zero, global_batch=4 * N, overlap_grad_reduce=overlap, overlap_param_gather=overlap
    )
    assert moved == pytest.approx(times * (N - 1) / N, rel=1e-9)


def test_hsdp_reduces_shards_among_replicas() -> None:
    """Shards of 4: 3/4 three times inside, and an all-reduce of a quarter among 2 replicas: 2 x 1/2 x 1/4."""
    assert volume(zero=3, shard=4) == pytest.approx(3 * 3 / 4 + 0.25, rel=1e-9)


def test_volumes_count_a_ring_shift_whole() -> None:
    from tests.sim.hand_made import alike

    four = alike(4, {"c": [Collective("s", "send_recv", "cp", 6.0)]}, {"cp": [[0, 1, 2, 3]]})
    assert communication_volume(simulate(four, star(4)), 0) == {"cp": 6.0}


def ops(**fields) -> list[tuple[str, str]]:
    """(stream, name) of the data-parallel spans of rank 0, in order of time."""
    plan = Plan(**{"dp": N, "global_batch": N, "seq_len": 256, **fields})
    timeline = simulate(lower(SMALL, plan), cluster("h100-fat-tree", N))
    found = [
        (record.name, span)
        for record in timeline.streams_of[0]
        for span in timeline.spans(0, record.name)
        if isinstance(span.op, Collective)
    ]
    found.sort(key=lambda row: row[1].start)
    return [(stream, span.op.name) for stream, span in found]


def test_ddp_reduces_buckets_during_the_backward() -> None:
    found = ops(zero=0, bucket_bytes=1.0)
    assert found == [("reduce", "grads.all_reduce")] * 6


def test_ddp_without_overlap_reduces_once_at_the_end() -> None:
    assert ops(zero=0, overlap_grad_reduce="off") == [("compute", "grads.all_reduce")]


def test_fsdp_gathers_units_in_the_order_they_are_used() -> None:
    gathers = [name.split(".")[-1] for stream, name in ops(zero=3) if stream == "gather"]
    forward = ["embedding", *["layer"] * 4, "head"]
    assert gathers == [*forward, *reversed(forward)]


def test_prefetch_hides_gathers_that_would_be_exposed() -> None:
    plan = Plan(dp=N, global_batch=N, seq_len=256, zero=3)
    times = [
        simulate(lower(SMALL, replace(plan, prefetch=depth)), cluster("h100-fat-tree", N)).step_time
        for depth in (1, 3)
    ]
    assert times[1] <= times[0]


def test_experts_share_their_states_with_fewer() -> None:
    plan = Plan(tp=2, dp=8, ep=4, etp=2, global_batch=8, seq_len=256)
    assert Sharding(plan).degree == 8
    assert Sharding(plan).expert_degree == 2
