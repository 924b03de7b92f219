"""Schedules on a real model and cluster, by full replay."""

from dataclasses import replace

import pytest

from experiments.runfile import RunConfig, build_run
from experiments.schedule_run import passes, ranked, resized, run_race, run_schedule, with_schedule
from sim.errors import InputError
from workloads.schedules import SCHEDULES

RUN = {
    "model": {
        "name": "tiny", "num_layers": 16, "hidden_size": 2048, "num_heads": 16, "num_kv_heads": 16, "head_dim": 128,
        "ffn_size": 8192, "vocab_size": 2048,
    },
    "cluster": {"preset": "a100-superpod", "num_devices": 8},
    "plan": {"tp": 2, "pp": 4, "microbatch": 1, "global_batch": 8, "seq_len": 2048},
}  # fmt: skip


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return build_run("tiny", RUN)


@pytest.fixture(scope="module")
def race(config: RunConfig) -> dict[str, dict[str, object]]:
    return {row["schedule"]: row for row in run_race(config)}


def test_every_schedule_runs_on_a_real_model(race: dict[str, dict[str, object]]) -> None:
    assert list(race) == list(SCHEDULES)
    assert {name: row["status"] for name, row in race.items()} == dict.fromkeys(SCHEDULES, "ok")


def test_the_replay_ranks_schedules_as_theory_does(race: dict[str, dict[str, object]]) -> None:
    step = {name: float(row["step_time_s"]) for name, row in race.items()}  # type: ignore[arg-type]
    assert step["zb-v"] < step["zb-h1"] < step["1f1b"] < step["naive"]
    assert step["interleaved"] < step["1f1b"]
    assert step["1f1b"] == pytest.approx(step["gpipe"], rel=0.02)
    bubble = {name: float(row["bubble_fraction"]) for name, row in race.items()}  # type: ignore[arg-type]
    # (p - 1) / (m + p - 1) with p = 4, m = 8; naive leaves (p - 1) / p idle
    assert bubble["1f1b"] == pytest.approx(3 / 11, abs=0.04)
    assert bubble["naive"] == pytest.approx(3 / 4, abs=0.04)
    assert race["1f1b"]["messages"] == 2 * 3 * 8
    assert race["1f1b"]["peak_activations"] == [4, 3, 2, 1]


def test_memory_follows_what_is_held(race: dict[str, dict[str, object]]) -> None:
    first = {name: row["peak_activation_bytes"][0] for name, row in race.items()}  # type: ignore[index]
    assert first["gpipe"] == pytest.approx(2 * first["1f1b"], rel=0.05)  # 8 microbatches against 4
    assert first["v-min"] < first["v-half"] < first["zb-v"]


def test_a_race_is_ranked_with_the_illegal_last(config: RunConfig) -> None:
    few = resized(config, None, 6)
    rows = ranked(list(run_race(few, names=("dualpipe", "gpipe", "zb-v"))))
    assert [row["schedule"] for row in rows] == ["zb-v", "gpipe", "dualpipe"]
    assert rows[-1]["status"] == "illegal"
    assert "choose microbatches=8" in rows[-1]["reason"]


def test_one_schedule_has_its_orders_and_makespan(config: RunConfig) -> None:
    answer, result = run_schedule(with_schedule(config, "1f1b"))
    assert answer["orders"][3][:4] == ["F0.0", "BW0.0", "F0.1", "BW0.1"]
    assert (answer["makespan"], answer["span"]) == passes(result.timeline)
    assert answer["span"] <= answer["makespan"] <= answer["step_time_s"]
    for busy, bubble in zip(answer["busy"], answer["bubbles"], strict=True):
        assert busy + sum(bubble.values()) <= answer["step_time_s"] * (1 + 1e-9)


def test_sizes_can_be_changed_on_as_many_devices(config: RunConfig) -> None:
    plan = resized(config, 2, 4).plan
    assert (plan.pp, plan.dp, plan.num_microbatches, plan.num_devices) == (2, 2, 4, 8)
    with pytest.raises(InputError, match="choose from the divisors of 4"):
        resized(config, 3, None)
    with pytest.raises(InputError, match="at least 1"):
        resized(config, None, 0)


def test_chunks_are_the_runs_own_or_the_schedules_usual(config: RunConfig) -> None:
    several = replace(config, plan=replace(config.plan, schedule="interleaved", chunks=4))
    assert with_schedule(several, "bfs").plan.chunks == 4
    assert with_schedule(several, "zb-v").plan.chunks == 2
    assert with_schedule(config, "interleaved").plan.chunks == 2
    assert with_schedule(config, "interleaved", 4).plan.chunks == 4
    with pytest.raises(InputError, match="no option group_size"):
        with_schedule(config, "1f1b", group_size=2)
