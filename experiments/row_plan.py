"""Plan of a measured run: degrees, batch, schedule and switches that a row's columns state or imply."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from experiments.row_cluster import num_slices
from experiments.row_software import Habits
from experiments.row_text import Row, UnsupportedError, flag, needed, text, whole
from sim.errors import InputError, PlanError
from workloads.model import Model
from workloads.plan import TRAINING_DTYPES, Plan, check

SCHEDULES: Mapping[str, str] = MappingProxyType(
    {"1f1b-interleaved": "interleaved", "interleaved-1f1b": "interleaved", "zbv": "zb-v", "zbb": "zb-2p",
     "zbh1": "zb-h1", "zbh2": "zb-h2", "afab": "gpipe"}
)  # fmt: skip
"""Spellings of a schedule that are not its name."""
ZERO: tuple[tuple[str, int, bool], ...] = (
    (r"^none|^ddp", 0, True),
    (r"no reshard|shard_grad_op", 3, False),
    (r"zero[- _]?3|fsdp|full_?shard|zero\+\+", 3, True),
    (r"zero[- _]?2", 2, True),
    (r"zero[- _]?1|distributed|fused adam", 1, True),
)
"""Pattern -> ZeRO stage, and whether gathered parameters are dropped after forward; the first that fits."""
SHARD = (
    re.compile(r"over (\d+)"), re.compile(r"size (\d+)"), re.compile(r"= (\d+)\)"), re.compile(r"hpz (\d+)"),
    re.compile(r"\bvm \((\d+)\)"), re.compile(r"(\d+)-way per"),
)  # fmt: skip
RECOMPUTE: tuple[tuple[str, str], ...] = (
    (r"^none|^minimal", "none"),
    (r"selective \((op|layer)\)", "half"),
    (r"layers? per stage|full on", "full"),
    (r"partial", "full"),
    (r"selective \((?!.*\bmoe\b).*(norm|act|up-proj|mlp)", "none"),
    (r"^selective/full|^full|custom remat|remat", "full"),
    (r"^selective", "selective"),
)
"""Pattern -> recompute; ``half``: every other layer or product. The first that fits."""
EXACT_RECOMPUTE = ("none", "full", "selective", "selective (core_attn)")


def plan_of(row: Row, model: Model, habits: Habits) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan of a row and what was assumed.

    Raises `PlanError` where its numbers contradict each other, `UnsupportedError` where it does not state them.
    """
    notes: list[str] = []
    values = _degrees(row, habits, notes)
    values |= _batch(row, values["dp"], habits, notes)
    values |= _sharding(row, values, habits, notes)
    values |= _pipeline(row, values, notes)
    values |= _experts(row, values, model, notes)
    values |= _precision(row, notes)
    values |= _recompute(row, model, values, habits, notes)
    values["sequence_parallel"] = values["tp"] > 1 and _sequence_parallel(
        row, values, habits, notes
    )
    profile = habits.profile
    if habits.tp_overlap and values["sequence_parallel"] and not model.is_moe:
        profile = "megatron-core-tp-overlap"
        notes.append("tp_comm_overlap: on, as the framework's recipes set it")
    if habits.dropout:
        notes.append("dropout: on, the default of Megatron-LM's GPT scripts")
    plan = Plan(**values, software=profile, context=habits.context, dropout=habits.dropout)
    check(plan, model)
    return plan, tuple(notes)


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
        raise UnsupportedError("the plan is not stated: tp and dp are blank")
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


def _batch(row: Row, dp: int, habits: Habits, notes: list[str]) -> dict[str, Any]:
    """Return sequence length, global batch and microbatch."""
    seq_len, batch = needed(row, "seq_len"), needed(row, "global_batch_sequences")
    microbatch, steps = whole(row, "micro_batch"), whole(row, "grad_accum")
    if microbatch is None:
        compiled = habits.profile == "xla"
        microbatch = (
            max(1, batch // (dp * steps)) if steps else max(1, batch // dp) if compiled else 1
        )
        notes.append(f"micro_batch not stated: {microbatch}")
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
    if "offload" in stated:
        notes.append("optimizer offload is not modelled: states and step stay on the device")
    if "zero++" in stated:
        notes.append("ZeRO++: quantised transfers are not modelled")
    if "not stated" in stated:
        notes.append("degree of sharding not stated: all data-parallel ranks")
    result: dict[str, Any] = {"zero": zero, "reshard": reshard}
    ranks = values["dp"] * values["cp"]
    shard = next((int(m[1]) for pattern in SHARD if (m := pattern.search(stated))), 0)
    if "within slice" in stated:
        slices = num_slices(row, needed(row, "gpus"))
        shard = ranks // slices if slices > 1 else 0
    if zero and 0 < shard < ranks:
        result["shard"] = shard
    return result


def _pipeline(row: Row, values: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return schedule and chunks."""
    stated, chunks = text(row, "schedule").lower(), whole(row, "vpp") or 1
    name = stated.split("(")[0].strip()
    if values["pp"] == 1:
        return {"chunks": 1, "schedule": "1f1b"}
    if not name:
        name = "interleaved" if chunks > 1 else "1f1b"
        notes.append(f"schedule not stated: {name}")
    name = SCHEDULES.get(name, name)
    if name == "interleaved" and chunks == 1:
        notes.append("schedule interleaved, chunks not stated: 1f1b")
        name = "1f1b"
    folded = {"zb-v", "v-half", "v-min", "dualpipe", "dualpipev"}
    return {"chunks": 2 if name in folded else chunks, "schedule": name}


def _experts(row: Row, values: Mapping[str, Any], model: Model, notes: list[str]) -> dict[str, Any]:
    """Return ep and etp; etp left blank is tp, Megatron's default, where that divides."""
    ep, etp = whole(row, "ep") or 1, whole(row, "etp")
    if not model.is_moe:
        return {"ep": 1, "etp": 1}
    if etp is None:
        ranks = values["tp"] * values["cp"] * values["dp"]
        fits = ranks % (ep * values["tp"]) == 0 and model.expert_ffn_size % values["tp"] == 0
        etp = values["tp"] if fits else 1
        if values["tp"] > 1:
            notes.append(f"etp not stated: {etp}")
    return {"ep": ep, "etp": etp}


def _precision(row: Row, notes: list[str]) -> dict[str, Any]:
    """Return the precision; of two stated, the first."""
    stated = text(row, "dtype").lower()
    if not stated:
        notes.append("dtype not stated: bf16")
        return {"dtype": "bf16"}
    names = re.findall(r"[a-z]+\d+", stated)
    dtype = next((name for name in names if name in TRAINING_DTYPES), "")
    if not dtype:
        raise InputError(f"dtype={stated!r} is unknown; choose from {', '.join(TRAINING_DTYPES)}")
    if len(names) > 1:
        notes.append(f"dtype {stated}: taken as {dtype}")
    return {"dtype": dtype}


def _recompute(
    row: Row, model: Model, values: Mapping[str, Any], habits: Habits, notes: list[str]
) -> dict[str, Any]:
    """Return recompute; forms the plan does not have become the nearest."""
    stated = text(row, "recompute").lower()
    if not stated:
        stated = habits.recompute
        notes.append(f"recompute not stated: {stated}, the framework's default")
    if stated == "selective" and habits.profile == "torch-compiled":
        stated = "selective (op)"
    if stated == "selective" and not re.search(r"core_?attn", text(row, "notes").lower()):
        modules = re.search(r"recompute modules[^:]*:?\s*([\w, ]+)", text(row, "notes").lower())
        stated = f"selective ({modules[1]})" if modules else stated
    found = next((kind for pattern, kind in RECOMPUTE if re.search(pattern, stated)), None)
    if found is None:
        raise InputError(f"recompute={stated!r} is not understood; write none, selective or full")
    layers = -(-model.num_layers // (values["pp"] * values["chunks"]))
    count = re.search(r"(\d+) layers", stated)
    result: dict[str, Any] = {"recompute": "full" if found == "half" else found}
    if found == "half":
        result["recompute_layers"] = max(1, layers // 2)
    elif count and result["recompute"] == "full":
        stages = 1 if "per stage" in stated or "partial-full" in stated else values["chunks"]
        result["recompute_layers"] = min(layers, max(1, int(count[1]) // stages))
    if stated not in EXACT_RECOMPUTE:
        words = (
            f" of {result['recompute_layers']} layers a chunk"
            if "recompute_layers" in result
            else ""
        )
        notes.append(f"recompute {stated}: taken as {result['recompute']}{words}")
    return result
