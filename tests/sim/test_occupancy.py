"""Occupancy: by hand, against the ledger, and against the definition of HolisticTraceAnalysis on an exported trace."""

import json
from pathlib import Path

import pytest

from sim.engine import simulate
from sim.ledger import class_ledger
from sim.occupancy import covered, occupancy
from sim.timeline import Timeline
from sim.trace import write_kineto
from tests.sim.shown import pipeline
from topologies import cluster
from workloads.lower import lower
from workloads.model import Model
from workloads.plan import Plan

WIDE = Model(
    name="wide", num_layers=12, hidden_size=4096, num_heads=32, num_kv_heads=32, head_dim=128, ffn_size=16384,
    vocab_size=32768,
)  # fmt: skip
"""Kernels long enough for readers that keep whole microseconds."""
COMPUTES = ("compute", "recompute", "optimizer", "overlap_slowdown")
PLANS = {
    "data parallel": {"dp": 8, "zero": 3},
    "tensor parallel": {"tp": 8, "microbatch": 8, "sequence_parallel": True},
    "pipeline": {"pp": 4, "dp": 2},
    "pipeline, blocking sends": {"pp": 4, "tp": 2, "software": "megatron-2022"},
    "interleaved": {"pp": 4, "tp": 2, "chunks": 3, "schedule": "interleaved"},
}


def test_what_is_covered_twice_counts_once() -> None:
    assert covered([(1.0, 2.0), (0.0, 4.0), (6.0, 7.0), (3.0, 5.0)]) == 6.0
    assert covered([]) == 0.0


def test_a_pipeline_by_hand() -> None:
    """Rank 0: 2 + 2 forward, 3 + 3 backward, 1 optimizer; 2 sends, 2 receives of 1 s (one under compute), a norm."""
    found = occupancy(pipeline(), 0)
    assert found.compute == 11.0
    assert sum(found) == pipeline().step_time


@pytest.fixture(scope="module", params=PLANS)
def timeline(request: pytest.FixtureRequest) -> Timeline:
    plan = Plan(**{"microbatch": 2, "global_batch": 32, "seq_len": 2048} | PLANS[request.param])
    return simulate(lower(WIDE, plan), cluster("h100-host", 8), launch=1e-6)


def test_compute_is_the_ledgers(timeline: Timeline) -> None:
    for rank_class in range(timeline.num_classes):
        found, ledger = occupancy(timeline, rank_class), class_ledger(timeline, rank_class)
        assert found.compute == pytest.approx(sum(ledger.get(c, 0.0) for c in COMPUTES), rel=1e-6)
        assert sum(found) == pytest.approx(timeline.step_time, rel=1e-9)


def test_communication_is_what_the_ledger_exposes_and_what_runs_in_its_bubbles(
    timeline: Timeline,
) -> None:
    for rank_class in range(timeline.num_classes):
        found, ledger = occupancy(timeline, rank_class), class_ledger(timeline, rank_class)
        exposed = sum(v for cause, v in ledger.items() if cause.startswith("exposed."))
        hiding = sum(
            v for cause, v in ledger.items() if cause.split(".")[0] in ("bubble", "wait", "launch")
        )
        slack = 0.01 * timeline.step_time
        assert exposed - slack <= found.communication <= exposed + hiding + slack


def breakdown(path: Path) -> tuple[float, float, float, float]:
    """Compute, non-compute, idle and kernel time (us) of a file, as HolisticTraceAnalysis defines them."""
    events = json.loads(path.read_text())["traceEvents"]
    steps = [e for e in events if e.get("cat") == "user_annotation"]
    kept = [
        e
        for e in events
        if "stream" in e.get("args", {}) and e["ts"] < steps[-1]["ts"]  # the last step is dropped
    ]
    both = [(e["ts"], e["ts"] + e["dur"]) for e in kept]
    own = [
        span
        for e, span in zip(kept, both, strict=True)
        if not e["name"].startswith(("nccl", "Memset"))
    ]
    kernel_time = max(end for _, end in both) - min(start for start, _ in both)
    idle, compute = kernel_time - covered(both), covered(own)
    return compute, kernel_time - compute - idle, idle, kernel_time


def test_a_trace_splits_as_the_timeline(timeline: Timeline, tmp_path: Path) -> None:
    """To 1 % of the step, pipelines and all."""
    ranks = timeline.folding.representative.tolist()
    for rank, path in zip(ranks, write_kineto(timeline, tmp_path, ranks), strict=True):
        found = occupancy(timeline, timeline.class_of_rank(rank))
        stated = json.loads(path.read_text())["simulated"]
        assert list(stated.values()) == pytest.approx(list(found), rel=1e-9)
        compute, communication, idle, whole = (part * 1e-6 for part in breakdown(path))
        assert whole == pytest.approx(timeline.step_time, rel=0.001)
        for mine, theirs in zip(found, (compute, communication, idle), strict=True):
            assert mine == pytest.approx(theirs, abs=0.01 * timeline.step_time)


def test_holistic_trace_analysis_splits_alike(timeline: Timeline, tmp_path: Path) -> None:
    hta = pytest.importorskip(
        "hta.trace_analysis",
        reason="HolisticTraceAnalysis is not installed: pip install 'windtunnel[traces]'",
    )
    ranks = timeline.folding.representative.tolist()
    write_kineto(timeline, tmp_path, ranks)
    split = hta.TraceAnalysis(trace_dir=str(tmp_path)).get_temporal_breakdown(visualize=False)
    for _, row in split.iterrows():
        found = occupancy(timeline, timeline.class_of_rank(int(row["rank"])))
        columns = ("compute_time(us)", "non_compute_time(us)", "idle_time(us)")
        for mine, column in zip(found, columns, strict=True):
            assert mine == pytest.approx(row[column] * 1e-6, abs=0.01 * timeline.step_time)
