"""Numbers read off a timeline, by hand."""

from dataclasses import replace

import pytest

from sim.engine import simulate
from sim.ledger import ledgers, mean_ledger
from sim.metrics import (
    bubble_fraction,
    bubble_overhead,
    communication_volume,
    exposed_communication,
    flops_per_device,
    hfu,
    link_bytes,
    mean_peak,
    mfu,
    overlap_fraction,
    peak,
    step_time,
    tokens_per_s,
    utilization,
)
from sim.program import Collective, Recv, Send, Wait
from tests.sim.hand_made import UNIT, alike, kernel, pods, program, star
from topologies import cluster
from workloads.lower import lower
from workloads.model import Model
from workloads.plan import Plan

SMALL = Model(
    name="small", num_layers=4, hidden_size=512, num_heads=8, num_kv_heads=8, head_dim=64,
    ffn_size=2048, vocab_size=2048,
)  # fmt: skip


def ring(name, seconds, axis="dp", **more):
    return Collective(name, "send_recv", axis, float(seconds), **more)


def hidden_and_exposed():
    """9 s of kernels; 7 s of communication, 4 of them beside kernels."""
    return alike(
        2,
        {
            "compute": [kernel("f", 4, signals=("go",)), kernel("g", 4), Wait(("done",)), kernel("h", 1)],
            "reduce": [ring("r", 7, waits=("go",), signals=("done",))],
        },
        {"dp": [[0, 1]]},
    )  # fmt: skip


def test_rates_of_a_step() -> None:
    """8 FLOPs and 24 tokens in 12 s on two devices of 1 FLOP/s."""
    two = replace(
        hidden_and_exposed(), flops={"full": 8.0, "causal": 6.0, "hardware": 10.0}, tokens=24.0
    )
    timeline = simulate(two, star(2))
    assert step_time(timeline) == 12
    assert tokens_per_s(timeline) == 2
    assert flops_per_device(timeline) == pytest.approx(8 / 12 / 2)
    assert mfu(timeline) == pytest.approx(8 / 24)
    assert mfu(timeline, "causal") == pytest.approx(6 / 24)
    assert hfu(timeline) == pytest.approx(10 / 24)


def test_the_peak_is_the_mean_of_the_devices_used() -> None:
    fast = replace(UNIT, name="fast", peak={"bf16": 3.0})
    two = alike(2, {"c": [kernel("k", 1)]})
    assert mean_peak(simulate(two, star(4).with_device(1, fast))) == 2.0
    assert mean_peak(simulate(two, star(4).with_device(3, fast))) == 1.0


def test_a_precision_without_a_peak_runs_at_sixteen_bit() -> None:
    assert peak(replace(UNIT, peak={"bf16": 2.0, "fp8": 4.0}), "fp8") == 4.0
    assert peak(replace(UNIT, peak={"bf16": 2.0}), "fp8") == 2.0


def test_overlap_and_exposure() -> None:
    timeline = simulate(hidden_and_exposed(), star(2))
    parts = ledgers(timeline)
    assert exposed_communication(mean_ledger(timeline, parts)) == {"dp": 3}
    assert overlap_fraction(timeline, parts) == pytest.approx(4 / 7)


def test_transfers_that_overlap_each_other_count_once() -> None:
    two = alike(2, {"x": [ring("a", 4)], "y": [ring("b", 4)]}, {"dp": [[0, 1]]})
    timeline = simulate(two, star(2))
    assert overlap_fraction(timeline, ledgers(timeline)) == 0.0


def test_without_communication_nothing_overlaps() -> None:
    timeline = simulate(program({"c": [kernel("k", 1)]}), star(1))
    assert overlap_fraction(timeline, ledgers(timeline)) == 0.0


def test_bubbles_are_named_apart() -> None:
    mean = {"compute": 6.0, "bubble.warmup": 1.0, "bubble.drain": 1.0, "wait.end": 2.0}
    assert bubble_fraction(mean, 10.0) == 0.2
    assert bubble_overhead(mean, 10.0) == pytest.approx(0.25)


def test_utilization() -> None:
    """Kernels run 9 of 12 s; each of the 4 links carries 7 of 12 bytes."""
    found = utilization(simulate(hidden_and_exposed(), star(2)))
    assert found["compute"] == pytest.approx(9 / 12)
    assert found["links"] == pytest.approx(7 / 12)


def test_bytes_on_every_link() -> None:
    """A pair across pods and a message inside one: what each link carried."""
    four = program(
        {"c": [ring("r", 3)], "s": [Send("s", "x", 2.0)]},
        {"s": [Recv("s", "x", 2.0)]},
        {"c": [ring("r", 3)]},
        groups={"dp": [[0, 2]]},
        peers={"x": [1, -1, -1]},
    )
    machine = pods([2, 1])
    carried = link_bytes(simulate(four, machine))
    names = {machine.link_name(i): carried[i] for i in range(machine.num_links)}
    assert names == {
        "d0->leaf0": 5, "leaf0->d0": 3, "d1->leaf0": 0, "leaf0->d1": 2, "leaf0->top": 3, "top->leaf0": 3,
        "d2->leaf1": 3, "leaf1->d2": 3, "leaf1->top": 3, "top->leaf1": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "share"),
    [("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75)],
)
def test_volume_is_what_the_definition_says(kind, share) -> None:
    four = alike(4, {"c": [Collective("x", kind, "dp", 8.0)]}, {"dp": [[0, 1, 2, 3]]})
    timeline = simulate(four, star(4))
    assert communication_volume(timeline, 0) == {"dp": 8 * share}


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter", "all_to_all"])
def test_links_carry_the_volume(kind) -> None:
    """On one switch every device sends and receives its (n-1)/n, whatever the algorithm."""
    four = alike(4, {"c": [Collective("x", kind, "dp", 8.0)]}, {"dp": [[0, 1, 2, 3]]})
    timeline = simulate(four, star(4))
    assert link_bytes(timeline) == pytest.approx([6.0] * 8)


@pytest.mark.parametrize(
    "fields",
    [
        {"dp": 8, "zero": 3},
        {"tp": 2, "pp": 2, "dp": 2, "sequence_parallel": True},
        {"cp": 2, "dp": 4, "context": "ring"},
    ],
)
def test_folding_and_merging_carry_the_same_bytes(fields) -> None:
    step = lower(SMALL, Plan(**{"global_batch": 8, "seq_len": 512, **fields}))
    machine = cluster("h100-fat-tree", 8)
    plain = simulate(step, machine)
    for other in (simulate(step, machine, unfolded=True), simulate(step, machine, merged=True)):
        assert link_bytes(other) == pytest.approx(link_bytes(plain), rel=1e-9)
        assert utilization(other) == pytest.approx(utilization(plain), rel=1e-9)
        assert other.step_time == pytest.approx(plain.step_time, rel=1e-9)
        assert other.num_spans * len(plain.streams) == plain.num_spans * len(other.streams)
        mine = overlap_fraction(other, ledgers(other))
        assert mine == pytest.approx(overlap_fraction(plain, ledgers(plain)), abs=1e-6)
