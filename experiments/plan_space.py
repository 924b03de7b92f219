"""Plan space: the plans worth considering for a model and a number of devices, all at one global batch."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from experiments.runfile import RunConfig
from sim.cluster import Cluster
from sim.errors import InputError
from workloads.model import Model
from workloads.plan import Plan
from workloads.plan_check import check
from workloads.schedules import SCHEDULES

MICROBATCHES = (1, 2, 4, 8)
CHUNKS = (2, 4, 8, 16)
LONG = 4096
"""Tokens of a sequence that a context-parallel rank keeps at least."""
MOST_DEEP = 64
"""Pipeline ranks at most, besides the run's own."""
SPLIT = ("zb-h1", "zb-v", "dualpipev")
"""Schedules tried besides 1F1B and interleaved 1F1B; the run's own is tried too."""
RECOMPUTE = ("none", "selective", "full")


def plans(config: RunConfig, cluster: Cluster) -> Iterator[Plan]:
    """Yield legal plans by divisibility, the run's own first; what is no degree or schedule stays as the run has it."""
    base, model = config.plan, config.model
    yield base
    for tp, cp, pp, ep in _degrees(config, cluster):
        world = config.cluster.num_devices
        dp = world // (tp * cp * pp)
        for microbatch in MICROBATCHES:
            if base.global_batch % (dp * microbatch):
                continue
            fixed: dict[str, Any] = {
                "tp": tp, "cp": cp, "pp": pp, "ep": ep, "dp": dp, "microbatch": microbatch, "layout": (),
                "sequence_parallel": tp > 1, "shard": 0, **_context(cp), **_travel(ep),
            }  # fmt: skip
            for (schedule, chunks), zero, recompute in product(
                _schedules(model, base, pp), _levels(base, pp, dp * cp), RECOMPUTE
            ):
                modules = base.recompute_modules if recompute == "selective" else ("core_attn",)
                try:
                    plan = replace(
                        base, schedule=schedule, chunks=chunks, zero=zero, recompute=recompute,
                        recompute_modules=modules, recompute_layers=0, **fixed,
                    )  # fmt: skip
                    check(plan, model)
                except InputError:
                    continue
                if plan != base:
                    yield plan


def _context(cp: int) -> dict[str, Any]:
    """Return what has no effect where a sequence stays on one rank, at its neutral values."""
    neutral: dict[str, Any] = {"context_balance": "zigzag", "document_seed": 0, "context_inner": 0}
    return neutral if cp == 1 else {}


def _travel(ep: int) -> dict[str, Any]:
    """Return what has no effect where every rank holds all experts, at its neutral values."""
    return {"dispatcher": "auto", "dispatch_dtype": ""} if ep == 1 else {}


def _degrees(config: RunConfig, cluster: Cluster) -> Iterator[tuple[int, int, int, int]]:
    """Yield tp, cp, pp, ep that multiply into the devices; tp inside a scale-up domain."""
    base, model, world = config.plan, config.model, config.cluster.num_devices
    domain = int((cluster.domain == cluster.domain[0]).sum())
    for tp in divisors(model.num_heads, {base.tp}):
        if (tp > domain and tp != base.tp) or world % tp:
            continue
        for cp in powers(base.seq_len // LONG, {base.cp}):
            for pp in divisors(world // tp, {base.pp}):
                deep = pp > min(MOST_DEEP, model.num_layers) and pp != base.pp
                if deep or world % prod((tp, cp, pp)):
                    continue
                for ep in powers(model.num_experts, {base.ep}) if model.num_experts else (1,):
                    yield tp, cp, pp, ep


def _schedules(model: Model, base: Plan, pp: int) -> Iterator[tuple[str, int]]:
    """Yield (schedule, chunks) worth trying on so many pipeline ranks."""
    if pp == 1:
        yield "1f1b", 1
        return
    yield "1f1b", 1
    for chunks in sorted({*CHUNKS, base.chunks} - {1}):
        if model.num_layers % (pp * chunks) == 0 or (model.num_layers + 2) % (pp * chunks) == 0:
            yield "interleaved", chunks
    for name in sorted({*SPLIT, base.schedule} - {"1f1b", "interleaved"}):
        kind = SCHEDULES[name]
        if pp * kind.default_chunks <= model.num_layers + 2:
            yield name, kind.default_chunks


def _levels(base: Plan, pp: int, replicas: int) -> tuple[int, ...]:
    """Return the ZeRO levels worth trying."""
    if replicas == 1:
        return (0,)
    levels = {1, base.zero} if pp > 1 else {1, 3, base.zero}
    return tuple(sorted(levels))


def divisors(number: int, more: set[int]) -> list[int]:
    """Return the divisors of a number, and ``more``."""
    return sorted({d for d in range(1, number + 1) if number % d == 0} | more)


def powers(limit: int, more: set[int]) -> list[int]:
    """Return powers of two up to a limit (at least 1), and ``more``."""
    return sorted({1 << k for k in range(max(limit, 1).bit_length())} | more)
