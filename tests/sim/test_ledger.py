"""Where the time went: by hand, and that it always sums to the step."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.engine import simulate
from sim.ledger import class_ledger, ledgers, mean_ledger, stage_ledgers
from sim.program import Action, Collective, Recv, Segment, Send, Signal, Wait
from sim.timeline import Timeline
from tests.sim.hand_made import alike, kernel, program, star
from topologies import cluster
from workloads.lower import lower
from workloads.model import Model
from workloads.plan import Plan

SMALL = Model(
    name="small", num_layers=4, hidden_size=512, num_heads=8, num_kv_heads=8, head_dim=64,
    ffn_size=2048, vocab_size=2048,
)  # fmt: skip
CAUSES = {
    "compute", "recompute", "optimizer", "overlap_slowdown", "launch", "bubble.warmup", "bubble.steady",
    "bubble.drain", "wait.end",
}  # fmt: skip


def of(timeline: Timeline, rank: int) -> dict[str, float]:
    found = class_ledger(timeline, timeline.class_of_rank(rank))
    assert sum(found.values()) == pytest.approx(timeline.step_time, rel=1e-9)
    return found


def ring(name: str, seconds: float, axis: str = "dp", **more: object) -> Collective:
    return Collective(name, "send_recv", axis, float(seconds), **more)


def test_kernels_are_named_by_their_phase() -> None:
    ops = [kernel("f", 2), kernel("r", 3, "R"), kernel("b", 4, "B"), kernel("adam", 5, "O")]
    timeline = simulate(program({"compute": ops}), star(1))
    assert of(timeline, 0) == {"compute": 6, "recompute": 3, "optimizer": 5}


def test_a_collective_on_the_computing_stream_is_exposed() -> None:
    two = alike(2, {"compute": [kernel("f", 2), ring("r", 3)]}, {"dp": [[0, 1]]})
    assert of(simulate(two, star(2)), 0) == {"compute": 2, "exposed.dp": 3}


def test_communication_beside_compute_is_not_exposed() -> None:
    two = alike(
        2,
        {
            "compute": [kernel("f", 2, signals=("go",)), kernel("g", 9), Wait(("done",)), kernel("h", 1)],
            "reduce": [ring("r", 3, waits=("go",), signals=("done",))],
        },
        {"dp": [[0, 1]]},
    )  # fmt: skip
    assert of(simulate(two, star(2)), 0) == {"compute": 12}


def test_only_the_part_that_nothing_hides_is_exposed() -> None:
    two = alike(
        2,
        {
            "compute": [kernel("f", 2, signals=("go",)), kernel("g", 4), Wait(("done",)), kernel("h", 1)],
            "reduce": [ring("r", 7, waits=("go",), signals=("done",))],
        },
        {"dp": [[0, 1]]},
    )  # fmt: skip
    assert of(simulate(two, star(2)), 0) == {"compute": 7, "exposed.dp": 3}


def test_waiting_for_a_late_member_is_not_communication() -> None:
    two = program(
        {"compute": [kernel("a", 1), ring("r", 3)]},
        {"compute": [kernel("b", 5), ring("r", 3)]},
        groups={"dp": [[0, 1]]},
    )
    timeline = simulate(two, star(2))
    # the ranks stand at different places of the pipeline: a wait across places is the pipeline's
    assert of(timeline, 1) == {"compute": 5, "exposed.dp": 3}
    assert of(timeline, 0) == {"compute": 1, "bubble.warmup": 4, "exposed.dp": 3}
    same = program(
        {"compute": [kernel("a", 1), ring("r", 3)]},
        {"compute": [kernel("b", 5), ring("r", 3)]},
        groups={"dp": [[0, 1]]},
        places=[0, 0],
    )
    assert of(simulate(same, star(2)), 0) == {"compute": 1, "wait.dp": 4, "exposed.dp": 3}


def test_two_waits_in_a_row_are_told_apart() -> None:
    """The reduction waits 4 s for the other rank and takes 3: all of it is on the path of the last kernel."""
    streams = [
        {
            "compute": [kernel("f", seconds, signals=("go",)), Wait(("done",)), kernel("g", 1)],
            "reduce": [ring("r", 3, waits=("go",), signals=("done",))],
        }
        for seconds in (1, 5)
    ]
    timeline = simulate(program(*streams, groups={"dp": [[0, 1]]}, places=[0, 0]), star(2))
    assert of(timeline, 0) == {"compute": 2, "wait.dp": 4, "exposed.dp": 3}
    assert of(timeline, 1) == {"compute": 6, "exposed.dp": 3}


def test_what_another_stream_did_first_is_part_of_the_wait() -> None:
    """The gather of b runs behind that of a: of the 8 s before b, 2 are a's kernel."""
    two = alike(
        2,
        {
            "compute": [Wait(("a",)), kernel("a", 2), Wait(("b",)), kernel("b", 1)],
            "gather": [ring("ga", 3, signals=("a",)), ring("gb", 7, signals=("b",))],
        },
        {"dp": [[0, 1]]},
    )
    assert of(simulate(two, star(2)), 0) == {"compute": 3, "exposed.dp": 8}


def test_the_bubbles_of_a_pipeline() -> None:
    """Two stages, one microbatch of F 2 s and B 4 s, no time on the wire."""
    f, b = (Action(kind, 0, 0, 0) for kind in "FB")
    forward, backward = kernel("f", 2, signals=("fw",)), kernel("b", 4, "B")

    def stage(first: bool) -> dict[str, tuple[Segment, ...]]:
        tags = {"F": Action("F", 1, 0, 0), "B": Action("B", 0, 0, 0)}
        if first:
            return {
                "compute": (Segment(f, (forward,)), Segment(b, (Wait(("came",)), backward))),
                "send": (Segment(tags["F"], (Send("s", "pp.next", 1e-30, waits=("fw",)),)),),
                "recv": (Segment(tags["B"], (Recv("r", "pp.prev", 1e-30, signals=("came",)),)),),
            }
        done = Signal(("done",))
        return {
            "compute": (
                Segment(f, (Wait(("came",)), kernel("f", 2))),
                Segment(b, (backward, done)),
            ),
            "send": (Segment(tags["B"], (Send("s", "pp.prev", 1e-30, waits=("done",)),)),),
            "recv": (Segment(tags["F"], (Recv("r", "pp.next", 1e-30, signals=("came",)),)),),
        }

    both = program(stage(True), stage(False), peers={"pp.next": [1, -1], "pp.prev": [-1, 0]})
    timeline = simulate(both, star(2))
    assert timeline.step_time == pytest.approx(12)
    first, last = (of(timeline, rank) for rank in (0, 1))
    assert first["bubble.warmup"] == pytest.approx(6)
    assert last["bubble.warmup"] == pytest.approx(2)
    assert last["bubble.drain"] == pytest.approx(4)
    assert first["compute"] == last["compute"] == 6


def test_a_host_that_is_late_is_launch() -> None:
    one = program({"compute": [kernel("a", 1), kernel("b", 1)]})
    assert of(simulate(one, star(1), launch=2.0), 0) == {"compute": 2, "launch": 3}


def test_what_communication_takes_of_the_device_is_slowdown() -> None:
    """Two streams of kernels share the device: each runs at half speed while the other does."""
    device = star(2).device(0)
    slow = type(device)(
        name="slow", vendor="none", kind="gpu", peak=device.peak, memory_bytes=1.0, memory_bandwidth=4.0,
        compute_units=1, calibration={"memory.start": 0.0, "memory.bandwidth": 1.0},
    )  # fmt: skip
    two = alike(2, {"compute": [kernel("m", 40)], "comm": [ring("c", 6)]}, {"dp": [[0, 1]]})
    timeline = simulate(two, star(2, device=slow))
    assert of(timeline, 0) == {"compute": pytest.approx(10), "overlap_slowdown": pytest.approx(3)}


def test_the_end_of_the_step_is_waited_for() -> None:
    two = program({"compute": [kernel("a", 2)]}, {"compute": [kernel("b", 5)]})
    assert of(simulate(two, star(2)), 0) == {"compute": 2, "wait.end": 3}


def test_communication_after_the_last_kernel_is_exposed() -> None:
    two = alike(
        2,
        {"compute": [kernel("a", 2, signals=("go",))], "reduce": [ring("r", 3, waits=("go",))]},
        {"dp": [[0, 1]]},
    )
    assert of(simulate(two, star(2)), 0) == {"compute": 2, "exposed.dp": 3}


def test_means_weigh_classes_by_their_ranks() -> None:
    four = program({"compute": [kernel("a", 2)]}, {"compute": [kernel("b", 6)]}, places=[0, 1])
    four = type(four)(
        scripts=four.scripts, script_of_rank=np.array([0, 0, 0, 1]), flops=four.flops, tokens=1.0
    )
    timeline = simulate(four, star(4))
    parts = ledgers(timeline)
    assert mean_ledger(timeline, parts) == {"compute": 3, "wait.end": 3}
    assert stage_ledgers(timeline, parts) == [{"compute": 2, "wait.end": 4}, {"compute": 6}]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    tp, pp, cp = draw(
        st.sampled_from([(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (1, 2, 2), (2, 1, 2)])
    )
    dp = 8 // (tp * pp * cp)
    kind = (
        draw(st.sampled_from(["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"]))
        if pp > 1
        else "1f1b"
    )
    return Plan(
        tp=tp, pp=pp, cp=cp, dp=dp, seq_len=512,
        schedule=kind, chunks=2 if kind in ("interleaved", "zb-v") else 1,
        global_batch=dp * pp * 2,
        zero=draw(st.integers(0, 3)),
        reshard=draw(st.booleans()),
        sequence_parallel=draw(st.booleans()),
        recompute=draw(st.sampled_from(["none", "selective", "full"])),
        context=draw(st.sampled_from(["all_gather", "ring", "ulysses"])),
        overlap_p2p=draw(st.sampled_from(["on", "off"])),
        overlap_grad_reduce=draw(st.sampled_from(["on", "off"])),
        software=draw(st.sampled_from(["megatron-core", "megatron-core-graphs", "torch-fsdp", "xla"])),
    )  # fmt: skip


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans(), st.sampled_from([0.0, 5e-6]), st.booleans())
def test_the_ledger_of_any_plan_sums_to_the_step(plan: Plan, launch: float, merged: bool) -> None:
    timeline = simulate(
        lower(SMALL, plan), cluster("h100-fat-tree", 8), launch=launch, merged=merged
    )
    for part in ledgers(timeline):
        assert sum(part.values()) == pytest.approx(timeline.step_time, rel=1e-9)
        assert min(part.values()) >= 0
        names = {c for c in part if not c.startswith(("exposed.", "wait."))} | (set(part) & CAUSES)
        assert names <= CAUSES
        if not launch:
            assert part.get("launch", 0.0) < 1e-9 * timeline.step_time
        if plan.recompute == "none":
            assert "recompute" not in part
        if plan.pp == 1:
            assert not [c for c in part if c.startswith("bubble.")]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_streams_never_overlap_and_links_are_never_overfull(plan: Plan) -> None:
    from sim.metrics import link_bytes

    machine = cluster("h100-fat-tree", 8)
    timeline = simulate(lower(SMALL, plan), machine, unfolded=True)
    carried = link_bytes(timeline)
    assert (carried <= machine.link_capacity * timeline.step_time * (1 + 1e-9)).all()
    for record in timeline.streams:
        times = np.array([s[2:] for s in timeline.spans(record.rank_class, record.name)])
        if len(times):
            assert (times[:, 0] <= times[:, 1]).all()
            assert (times[:, 1] <= times[:, 2]).all()
            assert (times[1:, 0] >= times[:-1, 2] - 1e-15).all()
            assert times[-1, 2] <= timeline.step_time
