"""Scoring runs: rows in order, equal runs replayed once, the steady middle equal to the whole, nothing dropped."""

import csv
import dataclasses
from pathlib import Path

import pytest

from experiments.run_row import run_of_row
from experiments.score_runs import score_runs
from experiments.simulation import simulate_run
from experiments.steady import steady
from sim.units import GiB

ROW = {
    "id": "row-001", "source": "a paper", "hardware": "A100-80GB", "gpus": "32", "model": "llama2-7b",
    "seq_len": "2048",
    "global_batch_sequences": "64", "micro_batch": "1", "dtype": "bf16", "tp": "2", "pp": "4", "dp": "4", "vpp": "2",
    "framework": "Megatron-Core", "recompute": "none", "zero_stage_or_fsdp": "zero1", "measured_step_time_s": "3.0",
    "measured_mem_gib": "20", "notes": "",
}  # fmt: skip


def write(tmp_path: Path, rows: list[dict[str, str]]) -> Path:
    path = tmp_path / "runs.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ROW)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_rows_keep_their_order_and_their_reasons(tmp_path: Path) -> None:
    rows = [
        ROW,
        ROW | {"tp": "3"},
        ROW | {"hardware": "abacus"},
        ROW | {"id": "row-004", "measured_step_time_s": "2.0"},
    ]
    ticks: list[tuple[int, int]] = []
    answers = score_runs(
        write(tmp_path, rows), lambda done, total: ticks.append((done, total)), workers=1
    )
    assert [a["status"] for a in answers] == ["ok", "invalid", "unsupported", "ok"]
    assert [a["row"] for a in answers] == [0, 1, 2, 3]
    assert ticks == [(1, 1)]  # the first and the last row are one run
    assert "tp 3" in answers[1]["reason"]
    assert answers[0]["predicted_step_time_s"] == answers[3]["predicted_step_time_s"]
    assert answers[0]["measured_peak_memory_bytes"] == 20 * GiB
    assert (
        answers[0]["low_step_time_s"]
        < answers[0]["predicted_step_time_s"]
        < answers[0]["high_step_time_s"]
    )
    assert sum(answers[0]["ledger"].values()) == pytest.approx(answers[0]["predicted_step_time_s"])


def test_rows_of_one_run_keep_their_own_assumptions(tmp_path: Path) -> None:
    unsaid = {"dp": "", "measured_mem_gib": ""}
    first, second = score_runs(write(tmp_path, [ROW, ROW | unsaid]), workers=1)
    assert first["predicted_step_time_s"] == second["predicted_step_time_s"]
    assert "dp not stated: 4" in second["assumptions"]
    assert "dp not stated: 4" not in first["assumptions"]


def test_cells_of_no_column_make_a_row_invalid(tmp_path: Path) -> None:
    path = write(tmp_path, [ROW])
    path.write_text(path.read_text(encoding="utf-8").rstrip() + ",surplus\n", encoding="utf-8")
    (answer,) = score_runs(path, workers=1)
    assert answer["status"] == "invalid"
    assert "'surplus' stands in no column" in answer["reason"]


def test_a_process_pool_gives_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, [ROW, ROW | {"global_batch_sequences": "32"}])
    alone, pooled = score_runs(path, workers=1), score_runs(path, workers=2)
    for a, b in zip(alone, pooled, strict=True):
        assert a["predicted_step_time_s"] == b["predicted_step_time_s"]


def test_memory_is_of_the_kind_the_notes_name(tmp_path: Path) -> None:
    rows = [
        ROW | {"notes": words}
        for words in ("max_memory_allocated", "memory reserved", "mem = nvidia-smi")
    ]
    allocated, reserved, driver = (
        a["predicted_peak_memory_bytes"] for a in score_runs(write(tmp_path, rows), workers=1)
    )
    assert allocated < reserved < driver


def test_states_sharded_nobody_says_how_leave_memory_unpredicted(tmp_path: Path) -> None:
    row = ROW | {
        "tp": "1",
        "pp": "1",
        "dp": "32",
        "vpp": "",
        "zero_stage_or_fsdp": "zero3 (degree not stated)",
    }
    (answer,) = score_runs(write(tmp_path, [row]), workers=1)
    assert answer["status"] == "ok"
    assert answer["predicted_peak_memory_bytes"] is None
    assert any("not stated" in words for words in answer["assumptions"])


@pytest.mark.parametrize(("pp", "vpp", "batch"), [(4, "2", 128), (4, "", 96), (1, "", 96)])
def test_the_steady_middle_extends_to_the_whole_step(pp: int, vpp: str, batch: int) -> None:
    run = run_of_row(
        ROW | {"pp": str(pp), "dp": str(16 // pp), "vpp": vpp, "global_batch_sequences": str(batch)}
    )
    parts = steady(run)
    assert parts is not None
    short, longer = (
        simulate_run(r, merged=True).timeline.step_time for r in (parts.shorter, parts.longer)
    )
    whole = simulate_run(run).timeline.step_time
    assert parts.extend(short, longer) == pytest.approx(whole, rel=1e-5)


def test_a_short_step_is_replayed_whole() -> None:
    run = run_of_row(ROW | {"global_batch_sequences": "32"})
    assert steady(run) is None
    assert (
        steady(
            dataclasses.replace(run, plan=dataclasses.replace(run.plan, schedule="gpipe", chunks=1))
        )
        is None
    )
