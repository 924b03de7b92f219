"""Rows: a model from one row of a table of measured runs (the columns of a run, not of a model file).

A row states sizes (``n_layers hidden ffn_hidden heads kv_heads head_dim vocab n_experts topk
expert_ffn gated_mlp``); what it leaves out (norms, biases, ties, latent attention, shared experts,
windows) comes from the preset its ``model`` names, else from the design such a row describes.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sim.errors import PlanError
from workloads.model import Model
from workloads.models import MODELS
from workloads.models.families import GPT
from workloads.models.names import canonical, continued

COLUMNS = {
    "n_layers": "num_layers",
    "hidden": "hidden_size",
    "ffn_hidden": "ffn_size",
    "heads": "num_heads",
    "kv_heads": "num_kv_heads",
    "head_dim": "head_dim",
    "vocab": "vocab_size",
    "n_experts": "num_experts",
    "topk": "experts_per_token",
    "expert_ffn": "expert_ffn_size",
}
REQUIRED = ("n_layers", "hidden", "heads")
TRAITS = (
    "positions", "max_positions", "norm", "norms_per_layer", "norm_weight", "norm_bias",
    "embedding_norm", "qk_norm", "qkv_bias", "out_bias", "mlp_bias", "parallel_block",
    "tied_embeddings", "window_size", "window_period",
)  # fmt: skip
"""What a relative of the same family and design lends to a shape of its own."""
DEPTH = re.compile(r"-(l\d+|\d+l)$")


def model_from_row(row: Mapping[str, str]) -> Model:
    """Return the model a row describes. Raises `PlanError` naming the columns a shape lacks.

    Sizes are the row's own. A row cut to fewer layers than its preset keeps the share of leading
    dense layers, rounded up. A name of no preset takes the traits of its family, where one with the
    same design exists; else a gated MLP is read as Llama's design (rotary, RMS norm, untied),
    an ungated one as GPT's (learned positions, layer norm, biases, tied).
    """
    name = (row.get("model") or "unnamed").strip()
    sizes = _sizes(row)
    base = preset_of(name)
    if base is not None:
        return _from_preset(name, sizes, base, row)
    missing = [column for column in REQUIRED if COLUMNS[column] not in sizes]
    if missing:
        raise PlanError(
            f"model {name!r}: no shape: {', '.join(missing)} blank; fill them, or name a preset"
        )
    return _from_columns(name, sizes, row)


def preset_of(name: str) -> Model | None:
    """Return the preset a row's ``model`` names, its depth and variant suffixes aside; else None.

    ``llama3.1-405b-kv16-7L`` is the 405B, ``ascend-yi-34b`` the 34B: whole words of a preset's
    name, the longest that fits.
    """
    text = DEPTH.sub("", name.strip().lower())
    words = [word for word in re.split(r"[-_\s]+", text) if word != "ascend"]
    known = {canonical(preset): model for preset, model in MODELS.items()}
    for end in range(len(words), 0, -1):
        found = known.get(canonical("-".join(words[:end])))
        if found is not None:
            return found
    longer = continued("-".join(words), tuple(MODELS))
    return MODELS[longer] if longer else None


def _sizes(row: Mapping[str, str]) -> dict[str, int]:
    sizes = {}
    for column, field in COLUMNS.items():
        text = (row.get(column) or "").strip()
        if text:
            sizes[field] = _whole(column, text)
    return sizes


def _whole(column: str, text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value < 0 or value != int(value):
        raise PlanError(f"{column}={text!r} must be a whole number of 0 or more; correct the row")
    return int(value)


def _gated(row: Mapping[str, str], default: bool) -> bool:
    text = (row.get("gated_mlp") or "").strip().lower()
    return default if not text else text not in ("0", "0.0", "false", "no")


def _from_preset(name: str, sizes: dict[str, int], base: Model, row: Mapping[str, str]) -> Model:
    """Return ``base`` with the row's sizes; head_dim of latent attention stays the preset's."""
    if base.layer_types:
        return _hybrid(name, sizes, base)
    changes: dict[str, Any] = {key: value for key, value in sizes.items() if value}
    if base.is_mla:
        changes.pop("head_dim", None)
    changes |= {"name": name, "gated_mlp": _gated(row, base.gated_mlp)}
    layers = sizes.get("num_layers") or base.num_layers
    changes["num_dense_layers"] = -(-base.num_dense_layers * layers // base.num_layers)
    changes |= _positions(base.positions, row, base.max_positions)
    if sizes.get("num_experts") and not base.is_moe:
        changes |= _experts(sizes)
    return replace(base, **changes)


def _hybrid(name: str, sizes: dict[str, int], base: Model) -> Model:
    """Return a hybrid preset as it is: a row's columns describe its layers only in part."""
    layers = sizes.get("num_layers", base.num_layers)
    if layers != base.num_layers:
        raise PlanError(
            f"model {name!r}: num_layers={layers} of a hybrid whose pattern states "
            f"{base.num_layers} layers; state layer_types for another depth"
        )
    return replace(base, name=name, vocab_size=sizes.get("vocab_size") or base.vocab_size)


def _from_columns(name: str, sizes: dict[str, int], row: Mapping[str, str]) -> Model:
    hidden, heads = sizes["hidden_size"], sizes["num_heads"]
    if hidden < 1 or heads < 1:
        raise PlanError(f"model {name!r}: hidden={hidden}, heads={heads} must be at least 1")
    gated = _gated(row, True)
    moe = sizes.get("num_experts", 0) > 1
    given: dict[str, Any] = {
        "num_kv_heads": heads,
        "head_dim": hidden // heads,
        "ffn_size": 4 * hidden if not gated else 0,
    } | {key: value for key, value in sizes.items() if value and key not in _EXPERT_FIELDS}
    given |= _experts(sizes) if moe else {}
    if not given["ffn_size"]:
        given["ffn_size"] = sizes.get("expert_ffn_size", 0)
    if "vocab_size" not in given:
        raise PlanError(f"model {name!r}: vocab blank; fill it, or name a preset")
    traits = _family_traits(name, gated, moe)
    traits |= _positions(traits.get("positions", "rotary"), row, traits.get("max_positions", 0))
    numbers: dict[str, Any] = {"name": name, "gated_mlp": gated} | traits | given
    return Model(**numbers)


_EXPERT_FIELDS = ("num_experts", "experts_per_token", "expert_ffn_size")


def _experts(sizes: dict[str, int]) -> dict[str, int]:
    found = {field: sizes.get(field, 0) for field in _EXPERT_FIELDS}
    found["experts_per_token"] = found["experts_per_token"] or 1
    found["expert_ffn_size"] = found["expert_ffn_size"] or sizes.get("ffn_size", 0)
    return found


def _family_traits(name: str, gated: bool, moe: bool) -> dict[str, Any]:
    """Return the traits of the first preset of ``name``'s family word and design."""
    stem = _stem(name.lower().removeprefix("ascend-"))
    kin = [
        model
        for preset, model in MODELS.items()
        if _stem(preset) == stem and model.gated_mlp == gated and not model.layer_types
    ]
    closest = next((model for model in kin if model.is_moe == moe), next(iter(kin), None))
    if closest is not None:
        return {trait: getattr(closest, trait) for trait in TRAITS}
    return {} if gated else {key: value for key, value in GPT.items() if key != "gated_mlp"}


def _stem(name: str) -> str:
    return name.split("-", 1)[0]


def _positions(positions: str, row: Mapping[str, str], rows: int) -> dict[str, Any]:
    """A learned table reaches the row's sequence, at least."""
    if positions != "learned":
        return {}
    text = (row.get("seq_len") or "").strip()
    return {"max_positions": max(rows, _whole("seq_len", text) if text else 0, 1)}
