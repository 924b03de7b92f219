"""What one change would make a plan fit."""

import pytest

from experiments.fit import changes, would_fit
from experiments.runfile import build_run
from experiments.simulation import outside_bytes
from workloads.plan import Plan

RUN = {
    "model": {"preset": "llama2-13b"},
    "cluster": {"preset": "a100-superpod", "num_devices": 8},
    "plan": {"microbatch": 2, "global_batch": 16, "seq_len": 4096},
}


def test_changes_are_single_legal_and_save_memory() -> None:
    plan = Plan(tp=2, dp=4, global_batch=16, seq_len=4096, microbatch=2)
    words = [text for text, _ in changes(plan)]
    assert words == [
        "plan.sequence_parallel=true", "plan.zero=1", "plan.zero=2", "plan.zero=3", "plan.recompute=selective",
        "plan.recompute=full", "plan.microbatch=1", "plan.tp=4", "plan.pp=2", "plan.cp=2",
    ]  # fmt: skip
    for text, changed in changes(plan):
        key, _, value = text.removeprefix("plan.").partition("=")
        assert str(getattr(changed, key)).lower() == value
        assert changed.num_devices == plan.num_devices
        assert changed.global_batch == plan.global_batch


def test_13b_with_plain_data_parallelism_needs_more_than_one_change_or_a_large_one() -> None:
    # 16 bytes and more a parameter of 13B are 208 GB: on 80 GB no recomputation can help, sharding to the full can
    rows = {row["change"]: row for row in would_fit(build_run("thirteen", RUN))}
    assert not rows["plan.recompute=full"]["fits"]
    assert rows["plan.recompute=full"]["driver_bytes"] > 200e9
    assert rows["plan.zero=3"]["driver_bytes"] < rows["plan.zero=2"]["driver_bytes"]
    assert next(iter(rows.values()))["fits"] or not any(row["fits"] for row in rows.values())


def test_outside_the_allocator_stand_context_and_communicators() -> None:
    """24 channels to two neighbours, 4 MiB + 4,915,200 B + 512 KiB each (NCCL's init.cc); one communicator of all."""
    one = 24 * 2 * (4 * 2**20 + 120 * 640 * 8 * 8 + 2**19)
    plan = Plan(global_batch=8, seq_len=256, dp=8)
    assert outside_bytes(plan, 3) - outside_bytes(plan, 1) == 2 * one
    alone = outside_bytes(Plan(global_batch=8, seq_len=256), 0)
    assert outside_bytes(plan, 0) - alone == one
    old = Plan(global_batch=8, seq_len=256, software="megatron-2021")
    assert outside_bytes(old, 0) - alone == pytest.approx(575 * 2**20)
