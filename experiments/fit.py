"""Fit: what one change of the plan would make a step fit in memory, by replay of each."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from experiments.runfile import RunConfig
from experiments.simulation import simulate_run
from sim.errors import DeadlockError, InputError
from workloads.plan import Plan

MOST = 8
"""Changes tried at most."""


def changes(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield single changes that save memory, as ``--set`` would say them, each a legal plan on as many devices."""
    for words, values in _ideas(plan):
        try:
            yield words, replace(plan, **values)
        except InputError:
            continue


def _ideas(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield changes and the fields they set."""
    if plan.tp > 1 and not plan.sequence_parallel:
        yield "plan.sequence_parallel=true", {"sequence_parallel": True}
    for level in range(plan.zero + 1, 4):
        if plan.dp * plan.cp > 1:
            yield f"plan.zero={level}", {"zero": level}
    if plan.zero == 3 and not plan.reshard:
        yield "plan.reshard=true", {"reshard": True}
    if plan.recompute == "none":
        yield "plan.recompute=selective", {"recompute": "selective"}
    if plan.recompute != "full":
        yield "plan.recompute=full", {"recompute": "full", "recompute_modules": ("core_attn",)}
    if plan.microbatch > 1:
        half = plan.microbatch // 2
        yield f"plan.microbatch={half}", {"microbatch": half}
    if plan.dp % 2 == 0:
        for axis in ("tp", "pp", "cp"):
            degree = 2 * getattr(plan, axis)
            yield f"plan.{axis}={degree}", {axis: degree, "dp": plan.dp // 2}


def would_fit(config: RunConfig) -> list[dict[str, Any]]:
    """Return a row a change that was tried: ``change fits verdict driver_bytes step_time_s``, those that fit first.

    Of those the fastest is first, of the others the one that needs least memory.
    """
    rows: list[dict[str, Any]] = []
    for words, plan in changes(config.plan):
        if len(rows) == MOST:
            break
        try:
            result = simulate_run(replace(config, plan=plan), merged=True)
        except (InputError, DeadlockError):
            continue
        memory = result.memory()
        fullest = max(memory, key=lambda stage: float(stage["driver_bytes"]))
        rows.append(
            {
                "change": words,
                "fits": fullest["verdict"] != "does not fit",
                "verdict": fullest["verdict"],
                "driver_bytes": fullest["driver_bytes"],
                "step_time_s": result.timeline.step_time,
            }
        )

    def order(row: dict[str, Any]) -> tuple[bool, float]:
        return not row["fits"], float(row["step_time_s"] if row["fits"] else row["driver_bytes"])

    return sorted(rows, key=order)
