"""Studies of models and plans: helpers by hand, volumes and activations by formula, findings kept in results."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from experiments.case import AS_RUN, Case, case_figure, case_rows, plan_text, preset_case, unfit
from experiments.cli_study import questions
from experiments.simulation import simulate_run
from experiments.studies import (
    activation_terms,
    bubble_against_microbatches,
    column_row_duals,
    pipeline_batch,
    roofline_fsdp_tp,
    strategy_table,
    tp_against_pp,
    weak_scaling,
)
from experiments.study import module_of
from experiments.trial import (
    grouped,
    long_numbers,
    long_step_time,
    megatron_gpt,
    numbers,
    preset_run,
    run_config,
    trial,
    trial_run,
)
from sim.metrics import communication_volume
from workloads.counts import num_params
from workloads.plan import Plan

RESULTS = Path(__file__).resolve().parent.parent.parent / "results"
STUDIES = tuple(questions())


@pytest.mark.parametrize("name", STUDIES)
def test_the_kept_table_still_supports_its_finding(name: str) -> None:
    folder = RESULTS / name
    frame = pd.read_csv(folder / "table.csv", keep_default_na=True)
    for column in ("reason", "most_exposed"):
        if column in frame:
            frame[column] = frame[column].astype(object).fillna("")
    finding = module_of(name).check(frame)  # type: ignore[attr-defined]  # every study has one
    assert finding.count("\n") == 1


def test_the_models_of_the_pipeline_figure_have_their_published_sizes() -> None:
    sizes = [num_params(pipeline_batch.model(stages)) for stages in (1, 8)]
    assert sizes == pytest.approx([15e9, 121e9], rel=0.1)


def test_activations_of_a_layer_are_the_formula() -> None:
    frame = activation_terms.run(quick=True)
    assert list(frame["measured_sbh"]) == pytest.approx([34 + 80, 10 + 3 + 10, 14.25], rel=1e-6)


def test_tensor_parallel_bytes_are_four_all_reduces_a_layer() -> None:
    frame = tp_against_pp.run(quick=True)
    tp = frame[frame["strategy"] == "TP = 8"].iloc[0]
    assert tp["expected_gb"] == pytest.approx(8 * 2048 * 5120 * 2 * 8 * 7 / 8 * 40 / 1e9)
    assert tp["sent_gb"] == pytest.approx(tp["expected_gb"], rel=0.06)


def test_duals_are_counted_on_one_layer() -> None:
    frame = column_row_duals.run()
    assert frame.groupby(["sequence_parallel", "pass"])["count"].sum().to_dict() == {
        (False, "backward"): 2, (False, "forward"): 2, (True, "backward"): 6, (True, "forward"): 4,
    }  # fmt: skip


def test_a_slope_of_one_is_found() -> None:
    assert weak_scaling.slope(pd.Series([1, 2, 4]), pd.Series([3.0, 6.0, 12.0])) == pytest.approx(1)


def test_a_strategy_that_is_best_everywhere_is_named() -> None:
    frame = pd.DataFrame(
        {"strategy": ["a", "b"], **{c: [1.0, 2.0] for c in strategy_table.COLUMNS}}
    )
    assert strategy_table.dominating(frame) == ["a"]


def test_a_ledger_is_grouped_under_five_heads_and_keeps_its_sum() -> None:
    ledger = {
        "compute": 3.0,
        "exposed.tp": 1.0,
        "overlap_slowdown": 0.5,
        "bubble.drain": 2.0,
        "launch": 0.25,
    }
    found = grouped(ledger)
    assert found["communication"] == 1.5
    assert found["bubble"] == 2.0
    assert sum(found.values()) == sum(ledger.values())


def test_a_long_run_is_extended_from_two_short_ones() -> None:
    plan = Plan(pp=4, global_batch=32, seq_len=1024)
    config = run_config("zb-gpt-1.5b", "a100-host", plan)
    whole, extended = numbers(trial_run(config)), long_numbers(config)
    assert long_step_time(config) == pytest.approx(whole["step_time_s"], rel=2e-3)
    for key in ("step_time_s", "mfu", "mfu_causal", "bubble_fraction", "exposed_fraction"):
        assert extended[key] == pytest.approx(whole[key], rel=1e-2, abs=1e-3)


def test_a_case_replays_its_plan_and_each_knob() -> None:
    plan = Plan(dp=8, zero=1, global_batch=16, seq_len=1024)
    config = run_config("gpt3-125m", "h100-host", plan)
    case = Case(name="small", config=config, published_s=0.1, knobs={"sharded": {"zero": 3}})
    rows = case_rows([case])
    assert [row["variant"] for row in rows] == [AS_RUN, "sharded"]
    assert rows[0]["step_time_s"] == pytest.approx(
        trial("gpt3-125m", "h100-host", plan).timeline.step_time
    )
    assert plan_text(plan) == "DP8 ZeRO-1"
    assert len(case_rows([case], quick=True)) == 1


def test_a_case_takes_the_step_that_simulate_gives() -> None:
    (row,) = case_rows([preset_case("Yi", "yi-34b")], quick=True)
    step = simulate_run(preset_run("yi-34b"), merged=True).timeline.step_time
    assert row["step_time_s"] == pytest.approx(step, rel=2e-3)


def test_plans_that_do_not_fit_are_named() -> None:
    rows = [
        (AS_RUN, "small", 12.0, True),
        (AS_RUN, "large", 90.4, False),
        ("x", "small", 99.0, False),
    ]
    frame = pd.DataFrame(rows, columns=["variant", "case", "peak_memory_gib", "fits"])
    assert unfit(frame) == "does not fit as replayed: large (90 GiB)"
    assert unfit(frame[frame["fits"]]) == "every plan fits as run"


def test_tensors_sent_whole_cross_once_for_each_tensor_rank() -> None:
    plan = Plan(tp=4, pp=2, global_batch=4, seq_len=1024, software="megatron-2021")
    sent = [
        communication_volume(trial("gpt3-1.3b", "a100-superpod", p).timeline, 0)["pp.next"]
        for p in (plan, replace(plan, scatter_gather="off"))
    ]
    assert sent[1] == pytest.approx(4 * sent[0])


def test_what_fills_and_drains_is_told_from_what_stays() -> None:
    idle = {m: 7 / m + 0.03 for m in (8, 16, 32)}
    table = pd.DataFrame({"1f1b": {m: i / (1 + i) for m, i in idle.items()}})
    assert bubble_against_microbatches.fill_and_drain(table)["1f1b"] == pytest.approx(7)


def test_the_point_where_one_line_overtakes_another_is_interpolated() -> None:
    table = pd.DataFrame({"FSDP": [1.0, 2.0, 4.0], "FSDP + TP": [2.0, 4.0, 2.0]}, [64, 128, 256])
    assert roofline_fsdp_tp.overtakes(table) == pytest.approx(128 * 2**0.5)


def test_unequal_stages_idle_more_than_equal_ones() -> None:
    plan = Plan(pp=8, global_batch=8, seq_len=1024)
    result = trial(megatron_gpt(16, 1024, 8), "a100-superpod", plan)
    assert tp_against_pp.expected_bubble(result, 8) > 7 / 15


def test_cases_without_knobs_are_drawn() -> None:
    frame = pd.DataFrame(case_rows([preset_case("Yi", "yi-34b")], quick=True))
    assert len(case_figure(frame, "one").axes) == 2
