"""The order of a plan's pipeline: advice in words a plan knows."""

import pytest

from sim.errors import ScheduleError
from workloads.model import Model
from workloads.pipeline import pipeline
from workloads.plan import Plan

SMALL = Model(
    name="small", num_layers=16, hidden_size=64, num_heads=8, num_kv_heads=8, head_dim=8, ffn_size=128, vocab_size=256,
)  # fmt: skip


@pytest.mark.parametrize(
    ("schedule", "count", "chunks", "advice"),
    [
        ("interleaved", 11, 2, r"microbatches=11 .* choose microbatches=10 or 12 \(global_batch=60 or 72\), or group"),
        ("dualpipe", 7, 1, r"not 7; choose microbatches=8 \(global_batch=48\)"),
        ("dualpipev", 7, 2, r"not 7; choose microbatches=8 \(global_batch=48\) or more"),
    ],
)  # fmt: skip
def test_microbatches_that_do_not_fit_are_told_in_sequences(
    schedule: str, count: int, chunks: int, advice: str
) -> None:
    """3 replicas of 2 sequences a microbatch: 10 microbatches are 60 sequences."""
    plan = Plan(
        pp=4, dp=3, microbatch=2, global_batch=6 * count, seq_len=16, schedule=schedule, chunks=chunks,
    )  # fmt: skip
    with pytest.raises(ScheduleError, match=advice):
        pipeline(SMALL, plan)
