"""Plan of a measured run: degrees, batch, schedule and switches that a row's columns state or imply."""

import re
from collections.abc import Mapping
from math import gcd
from types import MappingProxyType
from typing import Any

from experiments.row_cluster import num_slices
from experiments.row_experts import experts_of
from experiments.row_recompute import recompute_of
from experiments.row_software import Habits, attention_of, year_of
from experiments.row_text import Row, UnsupportedError, flag, needed, text, whole
from sim.errors import InputError, PlanError
from workloads.model import Model
from workloads.plan import TRAINING_DTYPES, Plan
from workloads.plan_check import check

SCHEDULES: Mapping[str, str] = MappingProxyType(
    {"1f1b-interleaved": "interleaved", "interleaved-1f1b": "interleaved", "zbv": "zb-v", "zbb": "zb-2p",
     "zbh1": "zb-h1", "zbh2": "zb-h2", "afab": "gpipe"}
)  # fmt: skip
"""Spellings of a schedule that are not its name."""
ZERO: tuple[tuple[str, int, bool], ...] = (
    (r"^none|^ddp", 0, True),
    (r"no reshard|shard_grad_op", 3, False),
    (r"zero[- _]?3|fsdp|hsdp|full_?shard|zero\+\+", 3, True),
    (r"zero[- _]?2", 2, True),
    (r"zero[- _]?1|distributed|fused adam", 1, True),
)
"""Pattern -> ZeRO stage, and whether gathered parameters are dropped after forward; the first that fits."""
SHARD = (
    re.compile(r"over (\d+)"), re.compile(r"size (\d+)"), re.compile(r"= (\d+)\)"),
    re.compile(r"\bvm \((\d+)\)"), re.compile(r"(\d+)-way per"),
)  # fmt: skip

HPZ = re.compile(r"hpz (\d+)")
"""ZeRO++: ranks that share a second copy of the parameters."""
CONTEXTS = (
    (re.compile(r"ulysses"), "ulysses"),
    (re.compile(r"megatron_cp_algo|ring[- ]attention"), "ring"),
)
"""Words on how attention spans cp; the first that fits (``megatron_cp_algo``: MindSpeed's name of the ring)."""
LIGER = re.compile(r"liger kernel")
"""Liger's Triton kernels in eager PyTorch: fused norms and activations, cross-entropy that never holds all logits."""
COMPILED_LOSS = 2025
"""Year since when torchtitan compiles its loss too. Recalled; memory in its logs of 2024 agrees."""

ASYNC_TP = re.compile(r"async\s*-?tp")
"""torchtitan's AsyncTP: products cut into pieces that run beside their collectives."""


def plan_of(row: Row, model: Model, habits: Habits) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of a row and what was assumed.

    Raises `PlanError` where its numbers contradict each other, `UnsupportedError` where it does not state them.
    """
    notes: list[str] = []
    values = _degrees(row, habits, notes)
    values |= _batch(row, values, habits, notes)
    values |= _sharding(row, values, habits, notes)
    values |= _pipeline(row, model, values, habits, notes)
    values |= experts_of(row, values, model, habits, notes)
    values |= _precision(row)
    values |= recompute_of(row, model, values, habits, notes)
    values["sequence_parallel"] = values["tp"] > 1 and _sequence_parallel(
        row, values, habits, notes
    )
    profile = habits.profile
    if ASYNC_TP.search(text(row, "notes").lower()) and values["tp"] > 1:
        values["overlap_tp"] = "on"
    if LIGER.search(text(row, "notes").lower()):
        profile, values["loss"] = "torch-compiled", "chunked"
        notes.append("Liger kernels: fused as compiled code is, logits in chunks")
    elif habits.drops_logits and (
        profile == "torch-fsdp" or (whole(row, "year") or COMPILED_LOSS) < COMPILED_LOSS
    ):
        values["loss"] = "dropped"
    if habits.tp_overlap and values["sequence_parallel"] and not model.is_moe:
        values["overlap_tp"] = "on"
        notes.append("tp_comm_overlap: on, as the framework's recipes set it")
    values["attention"] = _attention(row, model, profile, habits, notes)
    if habits.dropout:
        notes.append("dropout: on, the default of Megatron-LM's GPT scripts")
    values["libraries"] = year_of(row)
    context = habits.context if values["cp"] == 1 else _context(row, habits, notes)
    plan = Plan(**values, software=profile, context=context, dropout=habits.dropout)
    check(plan, model)
    return plan, tuple(notes)


def _context(row: Row, habits: Habits, notes: list[str]) -> str:
    """Return how attention spans cp: as the row's words say, else as the framework does."""
    words = text(row, "notes").lower()
    for pattern, context in CONTEXTS:
        if pattern.search(words):
            notes.append(f"context: {context}, as the row's words say")
            return context
    return habits.context


def _attention(row: Row, model: Model, profile: str, habits: Habits, notes: list[str]) -> str:
    """Return the kernel of the attention core: as the row's words say, and as the model's bias allows."""
    if model.positions == "alibi" and profile.startswith("megatron-core"):
        notes.append("attention kernel: unfused, as the fused ones take no ALiBi bias")
        return "unfused"
    named = attention_of(row)
    if named == "auto" or profile.startswith("megatron-20"):
        return habits.attention
    notes.append(f"attention kernel: {named}, as the row's words say")
    return named


def _sequence_parallel(
    row: Row, values: Mapping[str, Any], habits: Habits, notes: list[str]
) -> bool:
    """Return whether norms are cut over tp; where not stated, as the framework does."""
    stated = flag(row, "sp")
    if stated is None and values["tp"] > 1:
        stated = habits.sequence_parallel
        notes.append(f"sequence_parallel not stated: {'on' if stated else 'off'}")
    return bool(stated)


def _degrees(row: Row, habits: Habits, notes: list[str]) -> dict[str, Any]:
    """Return tp, cp, pp and dp; where none is stated, a sharded framework's whole machine is dp."""
    gpus = needed(row, "gpus")
    stated = {axis: whole(row, axis) for axis in ("tp", "cp", "pp", "dp")}
    if stated["tp"] is None and stated["dp"] is None:
        stated |= _whole_machine(row, gpus, habits, notes)
    known = {axis: value for axis, value in stated.items() if value is not None}
    rest = known.get("tp", 1) * known.get("cp", 1) * known.get("pp", 1)
    if stated["dp"] is None and gpus % rest == 0:
        known["dp"] = gpus // rest
        notes.append(f"dp not stated: {known['dp']}")
    blank = [axis for axis in ("tp", "cp", "pp") if axis not in known]
    if blank:
        notes.append(f"{', '.join(blank)} not stated: 1")
    degrees = {axis: known.get(axis, 1) for axis in ("tp", "cp", "pp", "dp")}
    product = rest * degrees["dp"]
    if product != gpus:
        words = " x ".join(f"{axis} {value}" for axis, value in degrees.items())
        raise PlanError(f"{words} = {product}, but gpus={gpus}; correct a degree")
    return degrees


def _whole_machine(row: Row, gpus: int, habits: Habits, notes: list[str]) -> dict[str, int | None]:
    """Return the degrees of a compiled run that states none: sharded over all devices that have a sequence."""
    if habits.profile != "xla":
        raise UnsupportedError("the plan is not stated: tp and dp are blank")
    dp = gcd(gpus, needed(row, "global_batch_sequences"))
    notes.append(f"degrees not stated: parameters sharded over {dp} devices, tp {gpus // dp}")
    return {"tp": gpus // dp, "dp": dp}


def _batch(
    row: Row, degrees: Mapping[str, Any], habits: Habits, notes: list[str]
) -> dict[str, Any]:
    """Return sequence length, global batch and microbatch: where not stated, by gradient accumulation, else 1.

    A compiled step without accumulation is one microbatch; under a pipeline accumulation says nothing, and torchtitan
    cuts a rank's batch into one microbatch a pipeline rank.
    """
    dp, pp = degrees["dp"], degrees["pp"] > 1
    seq_len, batch = needed(row, "seq_len"), needed(row, "global_batch_sequences")
    microbatch, steps = whole(row, "micro_batch"), whole(row, "grad_accum")
    if microbatch is None:
        share = max(1, batch // dp)
        whole_step = habits.profile == "xla" and not pp
        microbatch = max(1, share // steps) if steps and not pp else share if whole_step else 1
        if pp and habits.one_each:
            microbatch = max(1, share // degrees["pp"])
        notes.append(f"micro_batch not stated: {microbatch}")
    rounds = dp * microbatch * (steps or 1)
    # under a pipeline 1 means that its microbatches are no accumulation
    counted = steps is not None and (
        not pp or (steps > 1 and whole(row, "micro_batch") is not None)
    )
    if counted and rounds != batch:
        notes.append(
            f"grad_accum={steps} contradicts: {dp} ranks x {microbatch} x {steps} = {rounds} sequences, "
            f"global_batch_sequences={batch} is taken"
        )
    return {"seq_len": seq_len, "global_batch": batch, "microbatch": microbatch}


def _sharding(
    row: Row, values: Mapping[str, Any], habits: Habits, notes: list[str]
) -> dict[str, Any]:
    """Return ZeRO stage, size of a shard group and resharding."""
    stated = text(row, "zero_stage_or_fsdp").lower()
    if not stated:
        notes.append(f"sharding not stated: zero {habits.zero}")
        return {"zero": habits.zero}
    found = next((item for item in ZERO if re.search(item[0], stated)), None)
    if found is None:
        raise InputError(
            f"zero_stage_or_fsdp={stated!r} is not understood; write zero1, zero3, fsdp or none"
        )
    _, zero, reshard = found
    if "zero++" in stated:
        notes.append("ZeRO++: quantised transfers are not modelled")
    if "not stated" in stated:
        notes.append("degree of sharding not stated: all data-parallel ranks")
    if zero == 3 and values["pp"] > 1 and habits.gathers_once:
        notes.append(
            "fsdp under a pipeline: gathered once a step, reduced after the last microbatch"
        )
        reshard = False
    result: dict[str, Any] = {"zero": zero, "reshard": reshard}
    if zero == 3 and habits.overlaps_zero3:
        result |= {"overlap_param_gather": "on", "overlap_grad_reduce": "on"}
    if "offload" in stated:
        result["offload"] = ("optimizer",)
    ranks = values["dp"] * values["cp"]
    shard = next((int(m[1]) for pattern in SHARD if (m := pattern.search(stated))), 0)
    if "within slice" in stated:
        slices = num_slices(row, needed(row, "gpus"))
        shard = ranks // slices if slices > 1 else 0
    if zero and 0 < shard < ranks:
        result["shard"] = shard
    if (local := HPZ.search(stated)) and reshard and zero == 3:
        result["secondary"] = int(local[1])
    return result


def _pipeline(
    row: Row, model: Model, values: Mapping[str, Any], habits: Habits, notes: list[str]
) -> dict[str, Any]:
    """Return schedule and chunks; torchtitan's interleaved pipelines have two stages a rank where not stated."""
    stated, chunks = text(row, "schedule").lower(), whole(row, "vpp") or 1
    name = stated.split("(")[0].strip()
    if values["pp"] == 1:
        return {"chunks": 1, "schedule": "1f1b"}
    if not name:
        name = "interleaved" if chunks > 1 else "1f1b"
        notes.append(f"schedule not stated: {name}")
    name = SCHEDULES.get(name, name)
    if name == "interleaved" and chunks == 1:
        chunks = habits.slices or -(-model.num_layers // values["pp"])
        each = "the framework's default" if habits.slices else "one layer each"
        notes.append(f"schedule interleaved, chunks not stated: {chunks}, {each}")
    folded = {"zb-v", "v-half", "v-min", "dualpipe", "dualpipev"}
    return {"chunks": 2 if name in folded else chunks, "schedule": name}


def _precision(row: Row) -> dict[str, Any]:
    """Return the precision. Raises `UnsupportedError` where none, or more than one, is stated."""
    stated = text(row, "dtype").lower()
    if not stated:
        raise UnsupportedError("dtype is not stated; fill the column")
    names = re.findall(r"[a-z]+\d+", stated)
    if len(names) > 1:
        raise UnsupportedError(f"dtype {stated}: which of the two ran is not stated")
    if stated not in TRAINING_DTYPES:
        raise InputError(f"dtype={stated!r} is unknown; choose from {', '.join(TRAINING_DTYPES)}")
    return {"dtype": stated}
