"""What if: machines and programs with one resource faster."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.runfile import build_run
from experiments.simulation import JITTER, Result, simulate_run
from experiments.what_if import RESOURCES, inside_domains, unlinked, what_if, what_if_figure
from sim.engine import simulate
from topologies import cluster
from workloads.software import software

RUN = {
    "model": {"preset": "llama2-7b"},
    "cluster": {"preset": "a100-superpod", "num_devices": 16},
    "plan": {
        "tp": 2, "pp": 4, "microbatch": 1, "global_batch": 16, "seq_len": 2048, "zero": 1,
        "sequence_parallel": True, "recompute": "selective",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate_run(build_run("small", RUN), merged=True)


@pytest.fixture(scope="module")
def rows(result: Result) -> dict[str, dict[str, float]]:
    return {row["resource"]: row for row in what_if(result.config, result.timeline)}


def test_faster_is_never_slower_and_free_is_fastest(rows: dict[str, dict[str, float]]) -> None:
    assert list(rows) == [*(resource.name for resource in RESOURCES), "pipeline"]
    for row in rows.values():
        assert row["free_s"] <= row["twice_as_fast_s"] * (1 + 1e-9)
        assert row["twice_as_fast_s"] <= row["step_time_s"] * (1 + 1e-9)
        assert row["free_gain"] == pytest.approx(1 - row["free_s"] / row["step_time_s"])


def test_compute_gains_most_and_no_more_than_the_ledger_has(
    rows: dict[str, dict[str, float]], result: Result
) -> None:
    assert min(rows.values(), key=lambda row: row["free_s"])["resource"] == "compute"
    step = result.timeline.step_time
    assert rows["scale_up"]["free_s"] < step - 0.25 * result.mean["exposed.tp"]


def test_without_its_pipelines_waits_a_step_has_no_bubble(
    rows: dict[str, dict[str, float]], result: Result
) -> None:
    played = simulate(
        unlinked(result.timeline.program),
        result.timeline.cluster,
        launch=software(result.config.plan.software).launch,
        merged=True,
        jitter=JITTER,
    )
    alone = replace(result, timeline=played)
    waiting = sum(
        s for cause, s in alone.mean.items() if cause in ("bubble.warmup", "bubble.steady")
    )
    assert waiting == pytest.approx(0.0, abs=1e-9)
    assert rows["pipeline"]["free_s"] == pytest.approx(played.step_time)
    # of 8 microbatches on 4 stages (p - 1) / (m + p - 1) = 3 / 11 is bubble, twice the microbatches halve it
    assert rows["pipeline"]["free_gain"] == pytest.approx(3 / 11, abs=0.06)
    assert rows["pipeline"]["twice_as_fast_gain"] == pytest.approx(
        rows["pipeline"]["free_gain"] / 2, rel=0.1
    )


def test_without_a_pipeline_there_is_nothing_to_gain_from_it() -> None:
    table = {**RUN, "plan": {**RUN["plan"], "pp": 1, "tp": 8}}  # type: ignore[dict-item]
    alone = simulate_run(build_run("flat", table), merged=True)
    row = what_if(alone.config, alone.timeline)[-1]
    assert (row["resource"], row["free_gain"], row["twice_as_fast_gain"]) == ("pipeline", 0.0, 0.0)


@pytest.mark.parametrize("name", ["a100-superpod", "h100-fat-tree", "llama3-roce"])
def test_links_inside_a_host_are_those_of_nvlink(name: str) -> None:
    machine = cluster(name, 64)
    kinds = [kind.name for kind in machine.link_kinds]
    inside = {kinds[k] for k in np.unique(machine.links.kind[inside_domains(machine)])}
    assert inside
    assert all("nvlink" in kind for kind in inside)


def test_links_of_a_torus_are_inside_its_slice_and_those_of_the_data_centre_are_not() -> None:
    machine = cluster("tpu-v5p", 64)
    inside = inside_domains(machine)
    devices = (machine.links.src < 64) & (machine.links.dst < 64)
    assert (inside == devices).all()


def test_the_figure_has_two_bars_a_resource(rows: dict[str, dict[str, float]]) -> None:
    axes = what_if_figure(list(rows.values()), "small").axes[0]  # type: ignore[arg-type]
    assert len(axes.patches) == 2 * len(rows)
    assert "compute" in axes.get_title(loc="left")
