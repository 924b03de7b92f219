"""Recomputation of a measured run: what its text says is done again, in the terms of a plan."""

import re
from collections.abc import Mapping
from typing import Any

from experiments.row_software import Habits
from experiments.row_text import Row, text
from sim.errors import InputError
from workloads.model import Model

RECOMPUTE: tuple[tuple[str, str], ...] = (
    (r"^none|^minimal", "none"),
    (r"selective \(op\)", "op"),
    (r"selective \(layer\)", "every other"),
    (r"layers? per stage|full on", "full"),
    (r"partial", "full"),
    (r"^selective/full|^full|custom remat|remat", "full"),
    (r"^selective", "selective"),
)
"""Pattern -> recompute; ``op``: torchtitan's per-op form, ``every other``: of the layers. The first that fits."""
MODULES: tuple[tuple[str, str], ...] = (
    (r"core_?attn", "core_attn"),
    (r"up[-_]?proj", "mla_up_proj"),
    (r"norm", "norm"),
    (r"shared_experts?", "shared_experts"),
    (r"act", "moe_act"),
    (r"moe", "moe"),
    (r"mlp", "mlp"),
)
"""Word of a list of modules -> the plan's module; the first that fits."""
FORMS = {"op": "selective", "every other": "full"}
"""Forms -> recompute of the plan."""
KEEPS = ((r"qkv", "qkv"), (r"\bout\b", "attn_out"))
"""Word of what a full recomputation saves -> the plan's product."""
EXACT = ("none", "full", "selective")
NAMED = re.compile(r"recompute modules(?: \([^)]*\))?:?\s+([\w, ]+)")
IN_BRACKETS = re.compile(r"selective \(([^)]*)\)")


def recompute_of(
    row: Row, model: Model, values: Mapping[str, Any], habits: Habits, notes: list[str]
) -> dict[str, Any]:
    """Return recompute; forms the plan does not have become the nearest, and the notes say so."""
    stated = text(row, "recompute").lower()
    if not stated:
        stated = habits.recompute
        notes.append(f"recompute not stated: {stated}, the framework's default")
    if stated == "selective" and habits.per_op:
        stated = "selective (op)"
    found = next((kind for pattern, kind in RECOMPUTE if re.search(pattern, stated)), None)
    if found is None:
        raise InputError(f"recompute={stated!r} is not understood; write none, selective or full")
    result: dict[str, Any] = {"recompute": FORMS.get(found, found)}
    layers = -(-model.num_layers // (values["pp"] * values["chunks"]))
    count = re.search(r"(\d+) layers", stated)
    if found == "every other":
        result["recompute_every"] = 2
    elif found == "full" and "save" in stated:
        result["recompute_keeps"] = tuple(name for word, name in KEEPS if re.search(word, stated))
    elif found == "op":
        result["recompute_modules"] = ("op",)
    elif found == "selective":
        result |= _modules(stated, text(row, "notes").lower(), model, notes)
    elif count and found == "full":
        stages = 1 if "per stage" in stated or "partial-full" in stated else values["chunks"]
        result["recompute_layers"] = min(layers, max(1, int(count[1]) // stages))
    if stated not in EXACT and not {"recompute_modules", "recompute_keeps"} & result.keys():
        words = (
            f" of {result['recompute_layers']} layers a chunk"
            if "recompute_layers" in result
            else ""
        )
        notes.append(f"recompute {stated}: taken as {result['recompute']}{words}")
    return result


def _modules(stated: str, words: str, model: Model, notes: list[str]) -> dict[str, Any]:
    """Return the modules a selective recomputation names; none named is the attention core."""
    listed = IN_BRACKETS.search(stated) or NAMED.search(words)
    if not listed:
        return {}
    names = [name.strip() for name in re.split(r"[,+/]| and ", listed[1]) if name.strip()]
    found = [next((m for pattern, m in MODULES if re.search(pattern, name)), "") for name in names]
    absent = {"mla_up_proj": not model.is_mla, "shared_experts": not model.shared_width}
    absent |= dict.fromkeys(("moe_act", "moe"), not model.is_moe)
    left = [n for n, module in zip(names, found, strict=True) if not module or absent.get(module)]
    if left:
        notes.append(f"recompute of {', '.join(left)} is not modelled")
    modules = tuple(dict.fromkeys(m for m in found if m and not absent.get(m)))
    return {"recompute_modules": modules} if modules else {"recompute": "none"}
