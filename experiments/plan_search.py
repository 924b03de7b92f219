"""Plan search: the fastest plans of a model on a cluster, by replay in the order of their lower bounds.

Branch and bound: plans that cannot fit drop out; the run's own is replayed, then the others from the smallest bound up,
until the next bound is no better than the worst plan that would still be listed.
"""

from dataclasses import asdict, dataclass, fields, replace
from time import perf_counter
from typing import Any

from experiments.plan_bound import Bounds
from experiments.plan_space import plans
from experiments.runfile import RunConfig
from experiments.simulation import build_cluster, simulate_run
from sim.errors import InputError, SimError
from workloads.plan import Plan

MOST_REPLAYS = 40
"""Replays of one search at most; when they run out, the answer says so."""
DEGREES = ("tp", "cp", "ep", "pp", "dp", "schedule", "chunks", "microbatch", "zero", "recompute")
"""Keys of a plan that are always listed."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan, and what it needs at least: seconds and bytes."""

    plan: Plan
    seconds: float
    nbytes: float


def search(config: RunConfig, top: int, *, most: int = MOST_REPLAYS) -> dict[str, Any]:
    """Return what ``plan --json`` prints: ``plans`` (best first), ``num_considered num_simulated wall_s assumptions``.

    Each plan has its ``plan`` table, ``bound_s`` and the keys of ``simulate``. Raises `InputError` where nothing fits.
    """
    start = perf_counter()
    considered, candidates = _candidates(config)
    own = [candidate for candidate in candidates if candidate.plan == config.plan]
    found: list[dict[str, Any]] = []
    simulated, complete = 0, True
    for candidate in (*own, *(c for c in candidates if c not in own)):
        if (
            candidate not in own
            and len(found) >= top
            and candidate.seconds >= found[top - 1]["step_time_s"]
        ):
            break
        if simulated >= most:
            complete = False
            break
        simulated += 1
        summary = _replay(config, candidate)
        if summary is not None:
            found.append(summary)
            found.sort(key=lambda row: float(row["step_time_s"]))
    if not found and not complete:
        raise InputError(
            f"none of the {simulated} plans replayed fits, of {len(candidates)} that may; "
            "give a run whose own plan fits"
        )
    if not found:
        raise InputError(
            f"no plan of {config.model.name} on {config.cluster.num_devices} devices fits ({considered} considered, "
            f"{simulated} replayed); use more devices, or devices with more memory"
        )
    assumed = [
        "tensor parallelism stays inside a scale-up domain; switches, dtype and software are the run's"
    ]
    if not complete:
        assumed.append(
            f"stopped after {most} replays: a plan not replayed may be faster than those listed"
        )
    return {
        "plans": found[:top],
        "num_considered": considered,
        "num_fitting": len(candidates),
        "num_simulated": simulated,
        "wall_s": perf_counter() - start,
        "assumptions": assumed,
    }


def _candidates(config: RunConfig) -> tuple[int, list[Candidate]]:
    """Return how many plans there are, and those that may fit, smallest bound first."""
    bounds = Bounds(config.model, build_cluster(config))
    count, kept = 0, []
    for plan in plans(config, bounds.cluster):
        count += 1
        try:
            seconds, nbytes = bounds.bound(plan)
        except SimError:
            continue
        if bounds.fits(nbytes):
            kept.append(Candidate(plan, seconds, nbytes))
    return count, sorted(kept, key=lambda c: (c.seconds, c.nbytes))


def _replay(config: RunConfig, candidate: Candidate) -> dict[str, Any] | None:
    """Return the numbers of a plan, or None where it cannot run or does not fit."""
    try:
        summary = simulate_run(replace(config, plan=candidate.plan), merged=True).summary()
    except SimError:
        return None
    if not summary["fits"]:
        return None
    return {"plan": plan_table(candidate.plan), "bound_s": candidate.seconds, **summary}


def plan_table(plan: Plan) -> dict[str, Any]:
    """Return a plan as the ``[plan]`` table of a run file: degrees, and whatever is not the default."""
    values = asdict(plan)
    usual = {f.name: f.default for f in fields(Plan)}
    return {k: v for k, v in values.items() if k in DEGREES or v != usual[k]}
