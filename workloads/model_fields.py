"""Fields: a `Model` from the named numbers a person writes, what they leave out filled and listed."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sim.errors import PlanError, unknown
from workloads.model import LayerKind, Model

REQUIRED = ("num_layers", "hidden_size", "num_heads", "vocab_size")
NAMES = tuple(field.name for field in fields(Model))


def model_from_fields(
    given: Mapping[str, Any], name: str = "custom"
) -> tuple[Model, tuple[str, ...]]:
    """Return the model of ``given`` fields of `Model` and what was assumed for those left out.

    Left out, ``num_kv_heads`` is ``num_heads``, ``head_dim`` hidden_size / num_heads (nope + rope of
    latent attention), ``ffn_size`` that of an expert, a shared expert as wide as a routed one.
    Raises `PlanError`: an unknown field (near names), a missing one, a broken rule.
    """
    for field in given:
        if field not in NAMES:
            raise PlanError(unknown("field of [model]", field, NAMES))
    missing = [field for field in REQUIRED if field not in given]
    if missing:
        raise PlanError(f"[model] lacks {', '.join(missing)}; state them, or name a preset")
    numbers = {"name": name} | dict(given)
    assumptions = []
    for field, (value, why) in _left_out(numbers).items():
        if field not in numbers and value:
            numbers[field] = value
            assumptions.append(
                f"model {numbers['name']!r}: {field} left out, taken as {value} ({why})"
            )
    if "ffn_size" not in numbers:
        raise PlanError("[model] lacks ffn_size, the width of the MLP; state it")
    if "layer_types" in numbers:
        numbers["layer_types"] = tuple(LayerKind(*kind) for kind in numbers["layer_types"])
    return Model(**numbers), tuple(assumptions)


def _left_out(given: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    heads, hidden = given["num_heads"], given["hidden_size"]
    latent = bool(given.get("kv_lora_rank"))
    whole = isinstance(heads, int) and heads > 0 and hidden % heads == 0
    if not whole and "head_dim" not in given and not latent:
        raise PlanError(
            f"num_heads={heads} does not divide hidden_size={hidden}; state head_dim, or choose "
            "num_heads that divides"
        )
    rotary = given.get("qk_nope_head_dim", 0) + given.get("qk_rope_head_dim", 0)
    expert = given.get("expert_ffn_size", 0) or (given.get("ffn_size") if _has(given) else 0)
    shared = expert if given.get("num_shared_experts") else 0
    learned = given.get("norm") == "layer"
    return {
        "num_kv_heads": (heads, "num_heads"),
        "head_dim": (
            (rotary, "qk_nope_head_dim + qk_rope_head_dim")
            if latent
            else (hidden // heads if whole else 0, "hidden_size / num_heads")
        ),
        "ffn_size": (given.get("expert_ffn_size", 0), "expert_ffn_size"),
        "expert_ffn_size": (expert, "ffn_size"),
        "shared_ffn_size": (shared, "expert_ffn_size"),
        "norm_bias": (learned, "layer norm has one"),
    }


def _has(given: Mapping[str, Any]) -> bool:
    return bool(given.get("num_experts"))
