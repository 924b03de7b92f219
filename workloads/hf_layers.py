"""Layers of a config.json: which are mixtures of experts, which attend within a window."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sim.errors import PlanError
from workloads.hf_dialects import LAYER_WORDS, Dialect
from workloads.model import LayerKind


class Reads(Protocol):
    """What these functions ask of a config."""

    config: Mapping[str, Any]
    dialect: Dialect
    name: str

    def get(self, what: str) -> Any: ...  # noqa: D102
    def count(self, what: str, default: int = 0) -> int: ...  # noqa: D102
    def need(self, what: str) -> int: ...  # noqa: D102
    def assume(self, text: str) -> None: ...  # noqa: D102


def experts(reader: Reads, so_far: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a mixture of experts; none where the config has no experts."""
    num = reader.count("num_experts")
    if num <= 1:
        return {}
    ffn = reader.count("expert_ffn_size") or reader.count("intermediate_size")
    ffn = ffn or reader.need("ffn_size")
    numbers: dict[str, Any] = {
        "num_experts": num,
        "experts_per_token": reader.need("experts_per_token"),
        "expert_ffn_size": ffn,
        "router_bias": reader.dialect.router_bias,
    }
    shared = reader.count("num_shared_experts")
    width = reader.count("shared_ffn_size")
    if width and not shared:
        shared = 1
    if not shared and reader.dialect.shared_experts:
        shared = reader.dialect.shared_experts
    if shared:
        numbers |= {
            "num_shared_experts": shared,
            "shared_ffn_size": width or ffn,
            "shared_gate": reader.dialect.shared_gate,
        }
    return numbers | _which_moe(reader, so_far["num_layers"])


def _which_moe(reader: Reads, layers: int) -> dict[str, Any]:
    """Leading dense layers, a step, or explicit lists; a uniform rule, or the ``moe_layers`` tuple."""
    flags = _moe_flags(reader, layers)
    if not any(flags):
        raise PlanError(
            f"model {reader.name!r}: experts are given but no layer of {layers} uses them; "
            "correct first_k_dense_replace, decoder_sparse_step or mlp_only_layers"
        )
    lead = flags.index(True)
    for every in range(1, layers + 1):
        for start in range(lead + 1):
            rule = [i >= start and (i - start + 1) % every == 0 for i in range(layers)]
            if rule == flags:
                return {"num_dense_layers": start, "moe_every": every}
    return {"num_dense_layers": 0, "moe_layers": tuple(flags)}


def _moe_flags(reader: Reads, layers: int) -> list[bool]:
    listed = reader.get("moe_layers")
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        return [i in set(listed) for i in range(layers)]
    frequency = reader.get("moe_layer_freq")
    if isinstance(frequency, Sequence) and not isinstance(frequency, str):
        return [bool(f) for f in list(frequency)[:layers]]
    first = reader.count("first_dense")
    every = reader.count("decoder_sparse_step") or reader.count("interleave_moe_layer_step") or 1
    dense = set(reader.get("mlp_only_layers") or ())
    if frequency:
        return [i >= first and i % int(frequency) == 0 for i in range(layers)]
    return [i >= first and (i + 1) % every == 0 and i not in dense for i in range(layers)]


def pattern(reader: Reads, so_far: Mapping[str, Any]) -> dict[str, Any]:
    """Return window size and period, or ``layer_types`` where no period says it."""
    layers: int = so_far["num_layers"]
    moe = so_far.get("moe_layers")
    mixers = _mixers(reader, layers)
    numbers: dict[str, Any] = {}
    window = reader.count("window_size")
    if "window" in mixers:
        numbers["window_size"] = window
        period = _period(mixers)
        if period is not None and not moe:
            return {"window_size": window, "window_period": period}
    elif not moe:
        return {}
    mlps = [_mlp_word(so_far, i) for i in range(layers)]
    kinds = tuple(LayerKind(a, b) for a, b in zip(mixers, mlps, strict=True))
    return numbers | {"layer_types": kinds}


def _mlp_word(so_far: Mapping[str, Any], layer: int) -> str:
    if not so_far.get("num_experts"):
        return "dense"
    listed = so_far.get("moe_layers")
    if listed:
        return "moe" if listed[layer] else "dense"
    after = layer - so_far["num_dense_layers"]
    return "moe" if after >= 0 and (after + 1) % so_far["moe_every"] == 0 else "dense"


def _mixers(reader: Reads, layers: int) -> list[str]:
    stated = reader.get("layer_types")
    window = reader.count("window_size")
    if isinstance(stated, Sequence) and not isinstance(stated, str):
        words = [str(word) for word in stated][:layers]
        for word in words:
            if word not in LAYER_WORDS:
                raise PlanError(
                    f"model {reader.name!r}: layer type {word!r} cannot be represented; known: "
                    f"{', '.join(sorted(LAYER_WORDS))}"
                )
        found = [LAYER_WORDS[word] for word in words]
        return found if window else ["full"] * layers
    if not window or reader.get("use_sliding_window") is False:
        return ["full"] * layers
    period = reader.count("window_period") or reader.dialect.window_period
    if period:
        reader.assume(f"layer_types is absent: each {period}-th layer attends to everything")
        return ["full" if (i + 1) % period == 0 else "window" for i in range(layers)]
    full = reader.count("max_window_layers")
    return ["full" if i < full else "window" for i in range(layers)]


def _period(mixers: Sequence[str]) -> int | None:
    """Return the period that makes exactly these layers full (0: none is), else None."""
    if "full" not in mixers:
        return 0
    period = mixers.index("full") + 1
    same = all((mixer == "full") == ((i + 1) % period == 0) for i, mixer in enumerate(mixers))
    return period if same else None
