"""config.json: a `Model` from the configuration file of a published model, in its own dialect.

Keys differ by maker (``n_embd``, ``d_model``, ``hidden_size``), so every number has a list of
spellings; what a file leaves to its code is decided by ``model_type`` (`workloads.hf_dialects`). All that was
assumed is returned beside the model; what cannot be represented is refused by name.
"""

from collections.abc import Mapping
from typing import Any

from sim.errors import PlanError
from workloads import hf_layers
from workloads.hf_dialects import (
    FLATTENED,
    IGNORED_PARTS,
    NESTED,
    REFUSED,
    REFUSED_KEYS,
    dialect_of,
)
from workloads.hf_reader import Config, Reader, finite
from workloads.model import Model

MOST_LAYERS = 10_000
"""Above it the number of layers is a slip of the pen."""


def model_from_hf(config: Config, name: str = "") -> tuple[Model, tuple[str, ...]]:
    """Return the model a config.json describes and what was assumed reading it.

    Raises `PlanError`: an architecture that cannot be represented (by name), a missing number that
    nothing implies (by key), or numbers that break a rule of `Model`.
    """
    text, notes = _text_part(config)
    kind = str(text.get("model_type") or config.get("model_type") or "")
    name = name or str(config.get("_name_or_path") or kind or "hf-model")
    _refuse(config, text, kind, name)
    dialect, known = dialect_of(kind)
    reader = Reader(text, dialect, name, known, notes)
    if not known:
        stated = f"model_type {kind!r} is not known" if kind else "no model_type"
        reader.assume(f"{stated}: read as a Llama-like design, plus what its keys state")
    numbers: dict[str, Any] = {"name": name}
    for read in (_widths, _attention, hf_layers.experts, _mlp, _design, hf_layers.pattern):
        numbers |= read(reader, numbers)
    numbers |= {
        "num_mtp_layers": reader.count("num_mtp_layers"),
        "active_embedding": dialect.active_embedding,
    }
    numbers.pop("moe_flags", None)
    if "num_experts" in numbers:
        hf_layers.unused(reader, reader.used)
    return Model(**numbers), tuple(reader.assumptions)


def _text_part(config: Config) -> tuple[Config, list[str]]:
    notes = [
        f"{part} is ignored: only the language model is represented"
        for part in IGNORED_PARTS
        if config.get(part)
    ]
    for key in NESTED:
        inner = config.get(key)
        if isinstance(inner, Mapping) and inner:
            ties = {k: config[k] for k in ("tie_word_embeddings",) if k in config}
            return _flat(ties | dict(inner)), notes
    return _flat(config), notes


def _flat(config: Config) -> Config:
    inner: dict[str, Any] = {}
    for key in FLATTENED:
        part = config.get(key)
        if isinstance(part, Mapping):
            inner |= {k: v for k, v in part.items() if k not in _OWN_MEANING}
    return inner | dict(config)


_OWN_MEANING = ("model_type", "hidden_size")
"""Keys that say something else inside a part."""


def _refuse(config: Config, text: Config, kind: str, name: str) -> None:
    types = [kind, str(config.get("model_type") or "")]
    stated = config.get("architectures")
    names = [str(a) for a in stated] if isinstance(stated, list) else []
    encodes = bool(config.get("is_encoder_decoder")) or bool(text.get("is_encoder_decoder"))
    for candidate in types:
        reason = REFUSED.get(candidate)
        if reason:
            raise PlanError(_cannot(name, candidate, reason))
    classes = {_letters(kind): reason for kind, reason in REFUSED.items()}
    for architecture in names:
        reason = classes.get(_letters(architecture.split("For")[0].removesuffix("Model")))
        if reason:
            raise PlanError(_cannot(name, architecture, reason))
    if encodes:
        raise PlanError(_cannot(name, kind or "encoder-decoder", "an encoder-decoder"))
    if any("MaskedLM" in a for a in names):
        raise PlanError(_cannot(name, kind, "an encoder"))
    for key, reason in REFUSED_KEYS.items():
        if config.get(key) or text.get(key):
            raise PlanError(_cannot(name, kind or "unstated", f"{key}: {reason}"))
    width, embedded = text.get("hidden_size"), text.get("word_embed_proj_dim")
    if embedded is not None and width is not None and embedded != width:
        raise PlanError(_cannot(name, kind, f"embeddings of {embedded} projected to {width}"))


def _letters(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter.isalnum())


def _cannot(name: str, kind: str, reason: str) -> str:
    return (
        f"model {name!r}: architecture {kind!r} cannot be represented ({reason}); "
        "choose a decoder-only model with one width, or state the fields of [model]"
    )


def _widths(reader: Reader, so_far: Mapping[str, Any]) -> dict[str, Any]:
    tied = reader.switch("tie_word_embeddings")
    if tied is None:
        tied = reader.dialect.tied
        whose = "the default of this model_type" if reader.known else "as in Llama's design"
        reader.assume(f"tie_word_embeddings is absent: {tied}, {whose}")
    layers = reader.need("num_layers")
    if layers > MOST_LAYERS:
        raise PlanError(
            f"model {reader.name!r}: num_layers={layers} must be at most {MOST_LAYERS}; correct it in the file"
        )
    return {
        "num_layers": layers,
        "hidden_size": reader.need("hidden_size"),
        "vocab_size": reader.need("vocab_size"),
        "tied_embeddings": tied,
    }


def _attention(reader: Reader, so_far: Mapping[str, Any]) -> dict[str, Any]:
    hidden, heads = so_far["hidden_size"], reader.need("num_heads")
    kv = reader.count("num_kv_heads")
    if reader.dialect.multi_query_flag:
        new = reader.flag("new_decoder_architecture", False)
        one = reader.flag("multi_query", True) and not new
        kv = 1 if one else (kv or heads)
    elif not kv:
        kv = heads
        if reader.dialect.grouped:
            reader.assume(f"num_key_value_heads is absent: {kv}, as many as query heads")
    numbers: dict[str, Any] = {"num_heads": heads, "num_kv_heads": kv}
    rank = reader.count("kv_lora_rank")
    if rank:
        rope, nope = reader.need("qk_rope_head_dim"), reader.need("qk_nope_head_dim")
        return numbers | {
            "kv_lora_rank": rank,
            "q_lora_rank": reader.count("q_lora_rank"),
            "qk_rope_head_dim": rope,
            "qk_nope_head_dim": nope,
            "v_head_dim": _value_head_dim(reader, hidden, heads),
            "head_dim": rope + nope,
            "num_kv_heads": heads,
        }
    head_dim = reader.count("head_dim")
    if not head_dim:
        if hidden % heads:
            raise PlanError(
                f"model {reader.name!r}: head_dim is absent and num_heads={heads} does not divide "
                f"hidden_size={hidden}; add head_dim to the file"
            )
        head_dim = hidden // heads
        if reader.dialect.states_head_dim:
            reader.assume(f"head_dim is absent: {head_dim} = hidden_size / num_heads")
    return numbers | {"head_dim": head_dim}


def _value_head_dim(reader: Reader, hidden: int, heads: int) -> int:
    """Return the width of a latent attention's value head; where absent, as its model_type has it."""
    if reader.get("v_head_dim") is None and reader.dialect.value_heads_share_width:
        reader.assume(f"v_head_dim is absent: {hidden // heads} = hidden_size / num_heads")
        return hidden // heads
    return reader.need("v_head_dim")


def _mlp(reader: Reader, so_far: Mapping[str, Any]) -> dict[str, Any]:
    hidden, dialect = so_far["hidden_size"], reader.dialect
    gated = dialect.gated
    activation = str(reader.get("activation") or "").lower()
    if gated is None and not activation:
        gated = True
        reader.assume("no activation is stated: a gated MLP, as in Llama's design")
    elif gated is None:
        gated = "glu" in activation or activation in ("silu", "swish")
        reader.assume(f"gated MLP: {gated}, from the activation {activation}")
    width, ratio = reader.count("ffn_size"), reader.get("mlp_ratio")
    if not width and ratio is not None:
        if not finite(ratio) or not 0 < ratio < hidden:
            raise PlanError(
                f"model {reader.name!r}: mlp_ratio={ratio!r} must be a number above 0, the MLP's width over "
                f"hidden_size={hidden}; correct it in the file"
            )
        width = int(hidden * ratio)
    elif width and dialect.ffn_counts_gate:
        width //= 2
    if not width:
        width = so_far.get("expert_ffn_size", 0)
        if not width and dialect.ffn_ratio:
            width = dialect.ffn_ratio * hidden
            reader.assume(f"the MLP width is absent: {dialect.ffn_ratio} x hidden_size = {width}")
    if not width:
        reader.need("ffn_size")
    return {"ffn_size": width, "gated_mlp": gated}


def _design(reader: Reader, so_far: Mapping[str, Any]) -> dict[str, Any]:
    """Positions, norms, biases: what the code of a model_type fixes, and keys that change it."""
    dialect = reader.dialect
    positions = dialect.positions
    if reader.flag("alibi", False) or reader.get("position_embedding_type") == "alibi":
        positions = "alibi"
    rows = reader.count("max_positions") + dialect.extra_positions
    bias = reader.switch("attention_bias")
    qkv = dialect.qkv_bias if bias is None else bias
    out = dialect.out_bias if bias is None or dialect.qkv_bias_only else bias
    everywhere = reader.switch("use_bias")
    if everywhere is not None:
        qkv = out = everywhere
    mlp = reader.flag("mlp_bias", dialect.mlp_bias if everywhere is None else everywhere)
    norm_bias = dialect.norm_bias and not reader.flag("no_bias", False)
    norms = dialect.norms_per_layer
    if reader.flag("new_decoder_architecture", False):
        norms = 2
    qk = dialect.qk_norm
    if reader.flag("use_qk_norm", False) and not dialect.qk_norm_has_no_weights:
        qk = qk or "head"
    return {
        "positions": positions,
        "max_positions": rows if positions == "learned" else 0,
        "norm": dialect.norm,
        "norm_weight": dialect.norm_weight,
        "norm_bias": norm_bias,
        "norms_per_layer": norms,
        "embedding_norm": dialect.embedding_norm,
        "qk_norm": qk,
        "qkv_bias": qkv,
        "out_bias": out,
        "mlp_bias": mlp,
        "head_bias": dialect.head_bias,
        "attention_sinks": dialect.attention_sinks,
        "attention_gate": dialect.attention_gate,
        "parallel_block": reader.flag("parallel_block", dialect.parallel_block),
    }
