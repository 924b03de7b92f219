"""config.json: a `Model` from the configuration file of a published model, in its own dialect.

Keys differ by maker (``n_embd``, ``d_model``, ``hidden_size``), so every number has a list of
spellings; what a file leaves to its code is decided by ``model_type`` (`workloads.hf_dialects`). All that was
assumed is returned beside the model; what cannot be represented is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sim.errors import PlanError
from workloads import hf_layers
from workloads.hf_dialects import (
    FLATTENED,
    IGNORED_PARTS,
    NESTED,
    REFUSED,
    SPELLINGS,
    Dialect,
    dialect_of,
)
from workloads.model import Model

Config = Mapping[str, Any]


@dataclass(slots=True)
class Reader:
    """One config being read: its text part, its dialect, and what was assumed so far."""

    config: Config
    dialect: Dialect
    name: str
    assumptions: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def get(self, what: str) -> Any:
        """Return the first spelling of ``what`` that is present and not null, else None."""
        spellings = SPELLINGS.get(what, (what,))
        self.used.update(spellings)
        for key in spellings:
            value = self.config.get(key)
            if value is not None:
                return value
        return None

    def count(self, what: str, default: int = 0, *, least: int = 0) -> int:
        """Return a whole number, or ``default`` where no spelling is present. Raises `PlanError`."""
        value = self.get(what)
        if value is None:
            return default
        if isinstance(value, list | tuple) and value and len(set(value)) == 1:
            value = value[0]
        if isinstance(value, list | tuple):
            raise PlanError(
                f"model {self.name!r}: {what}={list(value)[:6]} differs by layer, which a model of "
                "equal layers cannot represent; give one number"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise PlanError(
                f"model {self.name!r}: {what}={value!r} must be a whole number; correct it in the file"
            )
        if value < least:
            raise PlanError(
                f"model {self.name!r}: {what}={value} must be {least} or more; correct it in the file"
            )
        return int(value)

    def need(self, what: str) -> int:
        """Return a number that nothing else implies. Raises `PlanError` naming the key."""
        value = self.count(what, least=1)
        if value < 1:
            spelled = ", ".join(SPELLINGS.get(what, (what,)))
            raise PlanError(
                f"model {self.name!r}: config.json has no usable {what} (looked for {spelled}), and "
                "nothing else implies it; add it to the file"
            )
        return value

    def assume(self, text: str) -> None:
        """Note something the file does not state."""
        self.assumptions.append(text)

    def flag(self, what: str, default: bool) -> bool:
        """Return a switch, ``default`` where it is absent."""
        value = self.get(what)
        return default if value is None else bool(value)


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
    reader = Reader(text, dialect, name, notes)
    if not known:
        stated = f"model_type {kind!r} is not known" if kind else "no model_type"
        reader.assume(f"{stated}: read as a Llama-like design, plus what its keys state")
    numbers: dict[str, Any] = {"name": name}
    for read in (_widths, _attention, hf_layers.experts, _mlp, _design, hf_layers.pattern):
        numbers |= read(reader, numbers)
    numbers |= {"num_mtp_layers": reader.count("num_mtp_layers")}
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
    names = [str(a) for a in (config.get("architectures") or [])]
    encodes = bool(config.get("is_encoder_decoder")) or bool(text.get("is_encoder_decoder"))
    for candidate in types:
        reason = REFUSED.get(candidate)
        if reason:
            raise PlanError(_cannot(name, candidate, reason))
    if encodes:
        raise PlanError(_cannot(name, kind or "encoder-decoder", "an encoder-decoder"))
    if any("MaskedLM" in a for a in names):
        raise PlanError(_cannot(name, kind, "an encoder"))
    if config.get("block_configs") or text.get("block_configs"):
        raise PlanError(_cannot(name, kind, "a model whose every block has its own widths"))
    width, embedded = text.get("hidden_size"), text.get("word_embed_proj_dim")
    if embedded is not None and width is not None and embedded != width:
        raise PlanError(_cannot(name, kind, f"embeddings of {embedded} projected to {width}"))


def _cannot(name: str, kind: str, reason: str) -> str:
    return (
        f"model {name!r}: architecture {kind!r} cannot be represented ({reason}); "
        "choose a decoder-only model with one width, or state the fields of [model]"
    )


def _widths(reader: Reader, so_far: Mapping[str, Any]) -> dict[str, Any]:
    tied = reader.get("tie_word_embeddings")
    if tied is None:
        tied = reader.dialect.tied
        reader.assume(f"tie_word_embeddings is absent: {tied}, the default of this model_type")
    return {
        "num_layers": reader.need("num_layers"),
        "hidden_size": reader.need("hidden_size"),
        "vocab_size": reader.need("vocab_size"),
        "tied_embeddings": bool(tied),
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
            "v_head_dim": reader.need("v_head_dim"),
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


def _mlp(reader: Reader, so_far: Mapping[str, Any]) -> dict[str, Any]:
    hidden, dialect = so_far["hidden_size"], reader.dialect
    gated = dialect.gated
    activation = str(reader.get("activation") or "").lower()
    if gated is None:
        gated = "glu" in activation or activation in ("silu", "swish")
        reader.assume(f"gated MLP: {gated}, from the activation {activation or 'unstated'}")
    width = reader.count("ffn_size")
    if not width and reader.get("mlp_ratio") is not None:
        width = int(hidden * float(reader.get("mlp_ratio")))
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
    bias = reader.get("attention_bias")
    qkv = dialect.qkv_bias if bias is None else bool(bias)
    out = dialect.out_bias if bias is None or dialect.qkv_bias_only else bool(bias)
    everywhere = reader.get("use_bias")
    if everywhere is not None:
        qkv = out = bool(everywhere)
    mlp = reader.get("mlp_bias")
    if mlp is None:
        mlp = dialect.mlp_bias if everywhere is None else bool(everywhere)
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
        "mlp_bias": bool(mlp),
        "head_bias": dialect.head_bias,
        "attention_sinks": dialect.attention_sinks,
        "attention_gate": dialect.attention_gate,
        "parallel_block": reader.flag("parallel_block", dialect.parallel_block),
    }
