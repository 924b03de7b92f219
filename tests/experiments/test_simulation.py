"""A replay whose ops run as chains says what one op by op says."""

import json
from typing import Any

import pytest

from experiments.runfile import load_run
from experiments.simulation import Result, simulate_run
from sim.metrics import link_bytes
from sim.trace import write_kineto, write_trace

SHRUNK = {
    "llama3-405b": ("cluster.num_devices=256", "plan.global_batch=32"),
    "sc21-7.5b": ("cluster.num_devices=16", "plan.global_batch=64", "model.num_layers=4"),
    "qwen3-30b-a3b": ("plan.global_batch=32", "plan.microbatch=2", "model.num_layers=6"),
}
"""Runs in which whole collectives end up in chains: with a pipeline, without one, with experts."""


def both(name: str, *more: str) -> tuple[Result, Result]:
    config = load_run(name, (*SHRUNK[name], *more))
    return simulate_run(config), simulate_run(config, merged=True)


@pytest.mark.parametrize("name", SHRUNK)
def test_chains_carry_what_their_collectives_carry(name) -> None:
    plain, merged = both(name)
    carried = link_bytes(plain.timeline)
    assert carried.any()
    assert link_bytes(merged.timeline) == pytest.approx(carried, rel=1e-9)
    first, second = plain.summary(), merged.summary()
    for key in ("utilization", "exposed_comm_s"):
        assert second[key] == pytest.approx(first[key], rel=1e-9), key
    for key in ("step_time_s", "mfu", "bubble_fraction", "peak_memory_bytes"):
        assert second[key] == pytest.approx(first[key], rel=1e-9), key
    assert second["num_spans"] == first["num_spans"]
    assert second["num_events"] < first["num_events"]


def test_chains_are_written_op_by_op(tmp_path) -> None:
    """Events of a replay of chains are those of one op by op, to the nanosecond."""
    found = []
    for number, result in enumerate(both("sc21-7.5b")):
        write_trace(result.timeline, tmp_path / f"{number}.json")
        paths = [
            tmp_path / f"{number}.json",
            *write_kineto(result.timeline, tmp_path / str(number)),
        ]
        found.append([json.loads(path.read_text())["traceEvents"] for path in paths])
    assert found[0] == found[1]


def test_a_late_host_moves_slowdown_between_kernels_of_a_chain() -> None:
    """A chain waits for its launches at its start, so other kernels of it meet communication: the step is the same."""
    plain, merged = both("qwen3-30b-a3b", "plan.microbatch=1")
    assert plain.mean["launch"] > 0.1 * plain.timeline.step_time
    assert merged.timeline.step_time == pytest.approx(plain.timeline.step_time, rel=1e-12)
    first, second = plain.summary()["utilization"], merged.summary()["utilization"]
    assert second["links"] == pytest.approx(first["links"], rel=1e-9)
    assert second["compute"] == pytest.approx(first["compute"], abs=0.002)


def test_a_result_lists_what_its_file_and_its_replay_assumed() -> None:
    told = simulate_run(load_run("llama3-405b", SHRUNK["llama3-405b"])).summary()["assumptions"]
    assert any(text.startswith("plan.software: whether code was compiled") for text in told)
    assert any("2.8% longer" in text and "slowest of 256" in text for text in told)
    assert not any(text.startswith("speeds") for text in _one_device()["assumptions"])


def _one_device() -> dict[str, Any]:
    alone = ("cluster.num_devices=1", "plan.global_batch=2", "plan.ep=1", "plan.dispatcher=auto")
    return simulate_run(load_run("qwen3-30b-a3b", alone)).summary()
