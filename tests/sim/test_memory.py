"""What a rank holds over time."""

import pytest

from sim.engine import simulate
from sim.memory import memory_curve, memory_peak
from sim.program import Allocate, Free
from tests.sim.hand_made import kernel, program, star
from topologies import cluster
from workloads.lower import lower
from workloads.model import Model
from workloads.plan import Plan

SMALL = Model(
    name="small", num_layers=8, hidden_size=512, num_heads=8, num_kv_heads=8, head_dim=64,
    ffn_size=2048, vocab_size=2048,
)  # fmt: skip


def held():
    ops = [
        Allocate("activations", 4.0),
        kernel("f", 2),
        Allocate("logits", 10.0),
        kernel("loss", 1),
        Free("logits", 10.0),
        kernel("b", 3),
        Free("activations", 4.0),
    ]
    return simulate(program({"compute": ops}, memory={"parameters": 7.0}), star(1))


def test_a_curve_starts_with_what_is_held_and_follows_each_change() -> None:
    curve = memory_curve(held(), 0)
    assert curve.categories == ("parameters", "activations", "logits")
    assert curve.time.tolist() == [0, 0, 2, 3, 6]
    assert curve.total.tolist() == [7, 11, 21, 11, 7]
    assert curve.held[2].tolist() == [7, 4, 10]


def test_the_peak_and_what_it_is_made_of() -> None:
    peak = memory_peak(held(), 0)
    assert (peak.nbytes, peak.time) == (21, 2)
    assert peak.breakdown == {"parameters": 7, "activations": 4, "logits": 10}


def test_a_rank_that_allocates_nothing_holds_what_it_had() -> None:
    timeline = simulate(program({"c": [kernel("k", 1)]}, memory={"x": 3.0}), star(1))
    assert memory_peak(timeline, 0) == (3.0, 0.0, {"x": 3.0}, 3.0)


def peaks(**fields) -> list[dict[str, float]]:
    """Breakdown at the peak of each pipeline rank."""
    plan = Plan(**{"global_batch": 16, "seq_len": 512, **fields})
    timeline = simulate(lower(SMALL, plan), cluster("h100-fat-tree", plan.num_devices))
    found = {
        timeline.place(c): memory_peak(timeline, c).breakdown for c in range(timeline.num_classes)
    }
    return [found[place] for place in sorted(found)]


@pytest.mark.parametrize(
    ("schedule", "in_flight"), [("gpipe", [16, 16, 16, 16]), ("1f1b", [4, 3, 2, 1])]
)
def test_activations_in_flight(schedule, in_flight) -> None:
    """A rank in the middle holds its two layers for every microbatch in flight, one more piece a microbatch."""
    found = [p["activations"] for p in peaks(pp=4, schedule=schedule)]
    each = found[1] / in_flight[1]
    assert found[2] == pytest.approx(in_flight[2] * each, rel=1e-9)


def test_recomputation_trades_memory() -> None:
    none, selective, full = (
        peaks(recompute=r, dropout=True, software="megatron-2022")[0]["activations"]
        for r in ("none", "selective", "full")
    )
    assert full < selective < none


@pytest.mark.parametrize("fields", [
    {}, {"pp": 4}, {"pp": 4, "schedule": "zb-h1"}, {"pp": 2, "chunks": 2, "schedule": "zb-v"}, {"dp": 4, "zero": 3},
    {"pp": 2, "dp": 2, "zero": 3, "schedule": "zb-h1"}, {"recompute": "full"}, {"pp": 4, "recompute": "selective"},
    {"dp": 2, "pp": 2, "chunks": 2, "schedule": "interleaved", "zero": 3},
])  # fmt: skip
@pytest.mark.parametrize("merged", [False, True])
def test_everything_is_given_back_by_the_end(fields, merged) -> None:
    plan = Plan(**{"global_batch": 16, "seq_len": 512, **fields})
    timeline = simulate(
        lower(SMALL, plan), cluster("h100-fat-tree", plan.num_devices), merged=merged
    )
    for rank_class in range(timeline.num_classes):
        curve = memory_curve(timeline, rank_class)
        script = timeline.program.scripts[timeline.place(rank_class)]
        most = curve.total.max()
        for number, category in enumerate(curve.categories):
            held = curve.held[:, number]
            assert held[-1] == pytest.approx(script.memory.get(category, 0.0), abs=1e-6 * most)
            assert held.min() >= -1e-6 * most, category


def test_sharded_parameters_are_held_whole_for_few_layers_only() -> None:
    """Two gathered units at most with one in advance, whatever the depth of the model."""
    found = peaks(dp=8, zero=3, prefetch=1)[0]
    whole = peaks(dp=8, zero=0)[0]
    assert found["parameters"] == pytest.approx(whole["parameters"] / 8)
    assert found.get("gathered", 0.0) < whole["parameters"] / 3
