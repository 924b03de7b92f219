"""Trial: one case of a study in one call, and the numbers studies compare."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from experiments.runfile import ClusterSpec, RunConfig, load_run
from experiments.simulation import Result
from experiments.steady import steady
from experiments.study import replay
from sim.metrics import (
    bubble_fraction,
    exposed_communication,
    flops_per_device,
    hfu,
    mfu,
    tokens_per_s,
)
from sim.units import TERA, GiB
from workloads.model import Model
from workloads.models import model as preset_model
from workloads.models.families import gpt
from workloads.plan import Plan

Row = dict[str, Any]
"""One row of a study's table."""


def trial(model: Model | str, cluster: str, plan: Plan, **parameters: Any) -> Result:
    """Replay a plan on as many devices of a cluster preset as it needs. Raises `InputError`."""
    return replay(model, cluster, plan.num_devices, plan, **parameters)


def run_config(model: Model | str, cluster: str, plan: Plan, **parameters: Any) -> RunConfig:
    """Return the run of a plan on as many devices of a cluster preset as it needs."""
    found = preset_model(model) if isinstance(model, str) else model
    spec = ClusterSpec(preset=cluster, num_devices=plan.num_devices, parameters=parameters)
    return RunConfig(name=found.name, model=found, cluster=spec, plan=plan)


def trial_run(config: RunConfig) -> Result:
    """Replay a run as its file states it, chains as one step."""
    spec = config.cluster
    parameters: dict[str, Any] = dict(spec.parameters)
    return replay(config.model, spec.preset, spec.num_devices, config.plan, **parameters)


def megatron_gpt(layers: int, hidden: int, heads: int) -> Model:
    """Return a GPT shape of the Megatron papers: MLP of 4 h, vocabulary 51,200, tied."""
    return Model(**gpt(f"gpt-{layers}x{hidden}", layers, hidden, heads, 51200))


def preset_run(name: str, **changes: Any) -> RunConfig:
    """Return a run preset with fields of its plan changed."""
    config = load_run(name)
    return replace(config, plan=replace(config.plan, **changes))


def long_step_time(config: RunConfig) -> float:
    """Return the step time (s), from two shorter replays where the middle of the step repeats."""
    halves = steady(config)
    if halves is None:
        return trial_run(config).timeline.step_time
    times = [trial_run(half).timeline.step_time for half in (halves.shorter, halves.longer)]
    return halves.extend(*times)


def numbers(result: Result) -> Row:
    """Return what most studies list: step time, rates, utilisation, bubble, exposed communication, memory."""
    timeline, mean = result.timeline, result.mean
    step = timeline.step_time
    return {
        "step_time_s": step,
        "tokens_per_s": tokens_per_s(timeline),
        "tflops_per_device": flops_per_device(timeline) / TERA,
        "mfu": mfu(timeline),
        "mfu_causal": mfu(timeline, "causal"),
        "hfu": hfu(timeline),
        "bubble_fraction": bubble_fraction(mean, step),
        "exposed_fraction": sum(exposed_communication(mean).values()) / step,
        "peak_memory_gib": peak_bytes(result) / GiB,
        "fits": fits(result),
    }


def long_numbers(config: RunConfig) -> Row:
    """Return `numbers` and ``exposed`` (s by axis) of a run, from two shorter replays where its middle repeats.

    Every cause of the ledger grows by the same seconds with each round, as the step does; memory is the
    longer replay's.
    """
    halves = steady(config)
    if halves is None:
        result = trial_run(config)
        return numbers(result) | {"exposed": exposed_communication(result.mean)}
    short, long = trial_run(halves.shorter), trial_run(halves.longer)
    step = halves.extend(short.timeline.step_time, long.timeline.step_time)
    mean = {cause: halves.extend(short.mean.get(cause, 0.0), s) for cause, s in long.mean.items()}
    row = numbers(long)
    rounds = config.plan.num_microbatches / halves.longer.plan.num_microbatches
    faster = rounds * row["step_time_s"] / step
    rates = ("tokens_per_s", "tflops_per_device", "mfu", "mfu_causal", "hfu")
    exposed = exposed_communication(mean)
    shares = {
        "bubble_fraction": bubble_fraction(mean, step),
        "exposed_fraction": sum(exposed.values()) / step,
    }
    return row | {
        "step_time_s": step,
        **{k: row[k] * faster for k in rates},
        **shares,
        "exposed": exposed,
    }


def peak_bytes(result: Result) -> float:
    """Return the most live bytes any rank holds."""
    return max(peak.nbytes for peak in result.peaks)


def fits(result: Result) -> bool:
    """Whether what the driver reports stays within the device at every place of the pipeline."""
    return all(result.driver_bytes(peak) <= result.device.memory_bytes for peak in result.peaks)


def grouped(ledger: Mapping[str, float]) -> dict[str, float]:
    """Return a ledger under five heads: compute, recompute, communication, bubble, other (s)."""
    heads = {"compute": "compute", "recompute": "recompute", "exposed": "communication",
             "overlap_slowdown": "communication", "bubble": "bubble"}  # fmt: skip
    found = dict.fromkeys((*dict.fromkeys(heads.values()), "other"), 0.0)
    for cause, seconds in ledger.items():
        found[heads.get(cause.partition(".")[0], "other")] += seconds
    return found
