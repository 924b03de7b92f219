"""Layers of a config.json: which are mixtures of experts, which attend within a window."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sim.errors import PlanError
from workloads.hf_dialects import EXPERT_WORDS, HYBRID_LETTERS, LAYER_WORDS, WITHOUT_COST
from workloads.hf_reader import Reader
from workloads.model import LayerKind


def experts(reader: Reader, so_far: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a mixture of experts; none where the config has no experts."""
    num = reader.count("num_experts")
    if num <= 1:
        return {}
    ffn = reader.count("expert_ffn_size") or _implied_width(reader, num)
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
    numbers |= _groups(reader, num)
    if reader.get("hybrid_pattern"):
        return numbers | {"moe_latent_size": reader.count("moe_latent_size")}
    return numbers | _which_moe(reader, so_far["num_layers"])


def _implied_width(reader: Reader, num_experts: int) -> int:
    """Return the width of an expert where the one width a model_type states is that. Raises `PlanError` elsewhere."""
    width = reader.count("intermediate_size")
    if reader.dialect.ffn_is_expert:
        return width or reader.need("ffn_size")
    dense = f"; intermediate_size={width} is the width of a dense MLP" if width else ""
    raise PlanError(
        f"model {reader.name!r}: num_experts={num_experts} without the width of one{dense}; add "
        "moe_intermediate_size to the file"
    )


def _groups(reader: Reader, num_experts: int) -> dict[str, int]:
    """Return groups of experts and how many of them a token reaches (node-limited routing), where that is a limit."""
    groups, reached = reader.count("num_routing_groups"), reader.count("routed_groups_per_token")
    if groups <= 1 or reader.get("topk_method") == "greedy":
        return {}
    if not reached:
        reader.assume(f"topk_group is absent: a token reaches experts of all {groups} groups")
        return {}
    return {"num_routing_groups": groups, "routed_groups_per_token": reached}


def unused(reader: Reader, used: Collection[str]) -> None:
    """Note what a config says about experts that nothing here asks for."""
    for key, value in reader.config.items():
        about = any(word in key for word in EXPERT_WORDS)
        plain = isinstance(value, int | float | str) and value not in (False, 0, "")
        if about and plain and key not in used and key not in WITHOUT_COST:
            reader.assume(f"{key}={value!r} is not represented: experts are read without it")


def _which_moe(reader: Reader, layers: int) -> dict[str, Any]:
    """Leading dense layers, a step, or explicit lists; a uniform rule, or the flag of every layer."""
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
    return {"num_dense_layers": 0, "moe_flags": tuple(flags)}


def _moe_flags(reader: Reader, layers: int) -> list[bool]:
    first, every = reader.count("first_dense"), reader.count("moe_step") or 1
    last = reader.count("last_moe", -1, least=-1) % layers
    dense, listed = reader.listed("mlp_only_layers"), reader.listed("moe_layers")
    if listed:
        return [i in listed for i in range(layers)]
    frequency = reader.get("moe_layer_freq")
    if isinstance(frequency, list):
        if len(frequency) != layers:
            raise PlanError(
                f"model {reader.name!r}: moe_layer_freq states {len(frequency)} layers of {layers}; give one number, "
                f"or 0 or 1 for each layer"
            )
        return [bool(f) for f in frequency]
    if frequency:
        every = reader.count("moe_layer_freq")
        return [i >= first and i % every == 0 for i in range(layers)]
    return [first <= i <= last and (i + 1) % every == 0 and i not in dense for i in range(layers)]


def pattern(reader: Reader, so_far: Mapping[str, Any]) -> dict[str, Any]:
    """Return window size and period, or ``layer_types`` where no period says it."""
    layers: int = so_far["num_layers"]
    if reader.get("hybrid_pattern"):
        return _hybrid(reader, layers)
    mixers = _mixers(reader, layers)
    numbers: dict[str, Any] = {}
    if "window" in mixers:
        numbers["window_size"] = reader.count("window_size")
    if "linear" in mixers:
        numbers |= {size: reader.need(size) for size in LINEAR_SIZES}
    elif not so_far.get("moe_flags"):
        period = _period(mixers) if "window" in mixers else 0
        if period is not None:
            return numbers | {"window_period": period}
    mlps = [_mlp_word(so_far, i) for i in range(layers)]
    kinds = tuple(LayerKind(a, b) for a, b in zip(mixers, mlps, strict=True))
    return numbers | {"layer_types": kinds}


LINEAR_SIZES = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "conv_size",
)
MAMBA_SIZES = (
    "mamba_num_heads",
    "mamba_head_dim",
    "mamba_state_size",
    "mamba_num_groups",
    "conv_size",
)


def _hybrid(reader: Reader, layers: int) -> dict[str, Any]:
    letters = str(reader.get("hybrid_pattern"))
    unknown = sorted(set(letters) - set(HYBRID_LETTERS))
    if unknown or len(letters) != layers:
        raise PlanError(
            f"model {reader.name!r}: hybrid_override_pattern has {len(letters)} letters for "
            f"num_hidden_layers={layers}, unknown {unknown}; use one of "
            f"{' '.join(HYBRID_LETTERS)} a layer"
        )
    sizes = {size: reader.need(size) for size in MAMBA_SIZES} if "M" in letters else {}
    kinds = tuple(LayerKind(*HYBRID_LETTERS[letter]) for letter in letters)
    return {**sizes, "layer_types": kinds}


def _mlp_word(so_far: Mapping[str, Any], layer: int) -> str:
    if not so_far.get("num_experts"):
        return "dense"
    listed = so_far.get("moe_flags")
    if listed:
        return "moe" if listed[layer] else "dense"
    after = layer - so_far["num_dense_layers"]
    return "moe" if after >= 0 and (after + 1) % so_far["moe_every"] == 0 else "dense"


def _mixers(reader: Reader, layers: int) -> list[str]:
    """Return the mixer of every layer: as its list says, else by a period, as switches and the dialect have it."""
    window = reader.count("window_size")
    words = _each_layer(reader, "layer_types", layers)
    if words:
        return _of_words(reader, [str(word) for word in words], window)
    every = reader.count("full_attention_interval")
    if every:
        return ["full" if (i + 1) % every == 0 else "linear" for i in range(layers)]
    switch = reader.switch("use_sliding_window")
    off = switch is False or (switch is None and reader.dialect.window_needs_switch)
    if not window or off:
        return ["full"] * layers
    if reader.get("attention_chunk_size"):
        rotary = _each_layer(reader, "no_rope_layers", layers)
        if rotary:
            return ["window" if one else "full" for one in rotary]
    period = reader.count("window_period") or reader.dialect.window_period
    if period:
        reader.assume(f"layer_types is absent: each {period}-th layer attends to everything")
        return ["full" if (i + 1) % period == 0 else "window" for i in range(layers)]
    full = reader.count("max_window_layers")
    return ["full" if i < full else "window" for i in range(layers)]


def _each_layer(reader: Reader, what: str, layers: int) -> list[Any]:
    """Return a list of an entry a layer, or an empty one. Raises `PlanError` for another length."""
    found = reader.listed(what)
    if found and len(found) != layers:
        raise PlanError(
            f"model {reader.name!r}: {what} states {len(found)} layers, num_hidden_layers={layers}; state one entry "
            f"for each layer, or leave {what} out"
        )
    return found


def _of_words(reader: Reader, words: Sequence[str], window: int) -> list[str]:
    for word in words:
        if word not in LAYER_WORDS:
            raise PlanError(
                f"model {reader.name!r}: layer type {word!r} cannot be represented; known: "
                f"{', '.join(sorted(LAYER_WORDS))}"
            )
    found = [LAYER_WORDS[word] for word in words]
    if window or "window" not in found:
        return found
    reader.assume("sliding_window is absent: layers of a window attend to everything")
    return ["full" if mixer == "window" else mixer for mixer in found]


def _period(mixers: Sequence[str]) -> int | None:
    """Return the period that makes exactly these layers full (0: none is), else None."""
    if "full" not in mixers:
        return 0
    period = mixers.index("full") + 1
    same = all((mixer == "full") == ((i + 1) % period == 0) for i, mixer in enumerate(mixers))
    return period if same else None
