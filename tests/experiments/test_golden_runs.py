"""Golden runs: step time, MFU and memory of shipped runs; any change is seen here and explained in CHANGELOG.

The table is written anew by ``python tests/experiments/test_golden_runs.py``.
"""

import csv
from pathlib import Path

import pytest

from experiments.runfile import load_run
from experiments.simulation import simulate_run
from sim.units import GiB

TABLE = Path(__file__).parent / "data" / "golden_runs.csv"
RUNS = (
    "llama3-405b", "llama3-405b-8192", "llama3-405b-131k", "llama3-8b", "llama2-70b", "gpt3-175b", "olmo-7b",
    "sc21-1.7b", "sc21-7.5b", "sc21-18.4b", "sc21-39.1b", "sc21-76.1b", "sc21-145.6b", "korthikanti-22b-full",
    "korthikanti-22b-selective", "korthikanti-175b-full", "korthikanti-175b-selective", "mixtral-8x7b",
    "mixtral-8x22b", "qwen3-30b-a3b", "gemma2-27b", "palm-540b", "pangu-ultra-135b", "gpt-oss-120b", "yi-34b",
    "deepseek-v3", "qwen3-235b-a22b", "nemotron-3-super", "deepseek-llm-67b", "llama2-7b", "llama2-13b",
)  # fmt: skip


def measure(name: str) -> dict[str, float]:
    result = simulate_run(load_run(name), merged=True).summary()
    return {
        "step_time_s": result["step_time_s"],
        "mfu": result["mfu"],
        "peak_memory_gib": result["peak_memory_bytes"] / GiB,
    }


def golden() -> dict[str, dict[str, float]]:
    with TABLE.open(newline="") as file:
        return {
            row.pop("run"): {key: float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        }


@pytest.mark.parametrize("name", RUNS)
def test_golden_run(name: str) -> None:
    assert measure(name) == pytest.approx(golden()[name], rel=1e-6)


PUBLISHED = {
    # Llama 3 paper (2407.21783), Table 4: seconds from 430 and 400 TFLOP/s a device; tolerance 10 %.
    "llama3-405b-8192": (12.50, 0.10),
    "llama3-405b": (6.72, 0.10),
    # Korthikanti et al. 2022 (2205.05198), Table 5; none over 10 %.
    "korthikanti-22b-full": (1.42, 0.10),
    "korthikanti-22b-selective": (1.10, 0.10),
    "korthikanti-175b-full": (18.13, 0.10),
    "korthikanti-175b-selective": (13.75, 0.10),
    # Narayanan et al. 2021 (2104.04473), Table 1: seconds from its TFLOP/s; none over 15 %.
    "sc21-1.7b": (3.5844, 0.15),
    "sc21-7.5b": (3.7205, 0.15),
    "sc21-18.4b": (9.4375, 0.15),
    "sc21-39.1b": (14.4908, 0.15),
    "sc21-76.1b": (16.0847, 0.15),
    "sc21-145.6b": (24.8435, 0.15),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_step_time_is_near_the_published_one(name: str) -> None:
    seconds, tolerance = PUBLISHED[name]
    assert golden()[name]["step_time_s"] == pytest.approx(seconds, rel=tolerance)


def test_llama3_at_131k_lies_between_the_two_ways_of_counting_its_flops() -> None:
    assert 10.9 < golden()["llama3-405b-131k"]["step_time_s"] < 15.3


if __name__ == "__main__":
    TABLE.parent.mkdir(exist_ok=True)
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["run", "step_time_s", "mfu", "peak_memory_gib"])
        writer.writeheader()
        for run in RUNS:
            writer.writerow({"run": run} | measure(run))
