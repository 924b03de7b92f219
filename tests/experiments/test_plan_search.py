"""The plan search: what is considered, that bounds are bounds, what is found."""

from dataclasses import replace

import pytest

from experiments.plan_bound import Bounds, peak_microbatches
from experiments.plan_search import plan_table, search
from experiments.plan_space import divisors, plans, powers
from experiments.runfile import RunConfig, build_run
from experiments.simulation import build_cluster, simulate_run
from sim.errors import InputError
from workloads.plan import Plan

RUN = {
    "model": {"preset": "llama2-7b"},
    "cluster": {"preset": "a100-superpod", "num_devices": 16},
    "plan": {
        "tp": 4,
        "pp": 2,
        "global_batch": 32,
        "seq_len": 4096,
        "sequence_parallel": True,
        "zero": 1,
    },
}


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return build_run("seven", RUN)


def test_plans_use_all_devices_at_one_batch_and_the_own_comes_first(config: RunConfig) -> None:
    found = list(plans(config, build_cluster(config)))
    assert found[0] == config.plan
    assert len(set(found)) == len(found) > 200
    assert {plan.num_devices for plan in found} == {16}
    assert {plan.global_batch for plan in found} == {32}
    assert {plan.tp for plan in found} == {1, 2, 4, 8}  # a host has 8
    assert divisors(12, {5}) == [1, 2, 3, 4, 5, 6, 12]
    assert powers(9, {1}) == [1, 2, 4, 8]


def test_bounds_are_below_what_the_replay_says(config: RunConfig) -> None:
    bounds = Bounds(config.model, build_cluster(config))
    found = list(plans(config, bounds.cluster))
    for plan in found[:: max(len(found) // 12, 1)]:
        seconds, nbytes = bounds.bound(plan)
        result = simulate_run(replace(config, plan=plan), merged=True)
        assert seconds <= result.timeline.step_time * (1 + 1e-9), plan
        held = max(stage["driver_bytes"] for stage in result.memory())
        assert nbytes <= held * 1.02, plan


def test_peaks_are_those_of_the_schedules() -> None:
    assert peak_microbatches("1f1b", 4, 1, 64) == (4, 3, 2, 1)
    assert peak_microbatches("gpipe", 4, 1, 8) == (8, 8, 8, 8)


def test_the_search_ends_with_plans_that_fit_and_beat_the_run(config: RunConfig) -> None:
    answer = search(config, 3, most=12)
    steps = [found["step_time_s"] for found in answer["plans"]]
    assert steps == sorted(steps)
    assert all(found["fits"] for found in answer["plans"])
    assert steps[0] < simulate_run(config, merged=True).timeline.step_time
    assert answer["num_considered"] > answer["num_fitting"] > answer["num_simulated"]
    best = answer["plans"][0]["plan"]
    again = build_run("again", {**RUN, "plan": best})
    assert simulate_run(again, merged=True).timeline.step_time == pytest.approx(steps[0])


def test_a_model_too_large_for_the_machine_is_said_to_be() -> None:
    table = {
        **RUN,
        "model": {"preset": "llama3-405b"},
        "plan": {"tp": 8, "global_batch": 32, "seq_len": 4096},
    }
    with pytest.raises(InputError, match="use more devices"):
        search(build_run("large", table), 1)


def test_a_plan_is_listed_as_a_run_file_has_it() -> None:
    table = plan_table(Plan(tp=2, dp=2, global_batch=8, seq_len=128))
    assert (table["tp"], table["dp"], table["schedule"], table["global_batch"]) == (2, 2, "1f1b", 8)
    assert "software" not in table
