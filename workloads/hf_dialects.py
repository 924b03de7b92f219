"""Dialects: how config.json files spell their keys, and what the code of a model_type fixes.

Source: the configuration and modelling code of the transformers library, by model_type.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

SPELLINGS: dict[str, tuple[str, ...]] = {
    "num_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "num_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "num_kv_heads": (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "kv_n_heads",
        "multi_query_group_num",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels", "d_kv"),
    "ffn_size": (
        "intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size",
        "d_ff", "mlp_hidden_size",
    ),
    "mlp_ratio": ("expansion_ratio", "mlp_ratio"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_positions": (
        "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length",
    ),
    "activation": (
        "hidden_act", "activation_function", "hidden_activation", "activation", "mlp_hidden_act",
    ),
    "tie_word_embeddings": ("tie_word_embeddings", "weight_tying"),
    "num_experts": ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"),
    "experts_per_token": (
        "num_experts_per_tok", "experts_per_token", "moe_topk", "moe_top_k", "moe_k",
        "top_k_experts", "num_selected_experts",
    ),
    "expert_ffn_size": ("moe_intermediate_size", "expert_intermediate_size", "expert_ffn_size"),
    "num_shared_experts": (
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert",
    ),
    "shared_ffn_size": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
    ),
    "num_routing_groups": ("n_group", "num_expert_group", "moe_router_num_groups"),
    "routed_groups_per_token": ("topk_group", "topk_groups", "moe_router_group_topk"),
    "moe_step": ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"),
    "last_moe": ("moe_layer_end_index",),
    "first_dense": ("first_k_dense_replace", "moe_layer_start_index"),
    "window_size": (
        "sliding_window", "sliding_window_size", "attention_chunk_size", "window_size",
    ),
    "layer_types": ("layer_types", "attention_layers"),
    "hybrid_pattern": ("hybrid_override_pattern",),
    "mamba_state_size": ("ssm_state_size", "mamba_state_size"),
    "mamba_num_groups": ("n_groups", "mamba_num_groups"),
    "conv_size": ("conv_kernel", "linear_conv_kernel_dim"),
    "window_period": (
        "sliding_window_pattern", "_sliding_window_pattern", "no_rope_layer_interval",
    ),
    "num_mtp_layers": ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_layers", "num_mtp_modules"),
    "attention_bias": ("attention_bias", "qkv_bias", "add_qkv_bias", "use_qkv_bias"),
    "use_bias": ("use_bias", "bias", "include_bias", "enable_bias"),
    "mlp_bias": ("mlp_bias",),
    "alibi": ("alibi",),
    "use_qk_norm": ("use_qk_norm", "qk_norm", "qk_layernorm"),
    "parallel_block": ("use_parallel_residual", "parallel_attn"),
}  # fmt: skip
"""Every number, and the keys it goes by, first found first taken."""

NESTED = ("text_config", "llm_config", "language_config", "language_model", "thinker_config")
"""Where multimodal files keep the language model."""

FLATTENED = ("attn_config", "ffn_config")
"""Where some keep parts of the language model's own numbers."""

IGNORED_PARTS = ("vision_config", "audio_config", "vision_tower", "mm_projector_type", "vit_config")

EXPERT_WORDS = ("expert", "moe", "router", "n_group", "topk_group")
"""What the name of a key about experts has in it."""

WITHOUT_COST = (
    "norm_topk_prob", "norm_topk", "routed_scaling_factor", "router_aux_loss_coef", "output_router_logits",
    "router_jitter_noise", "router_z_loss_coef", "moe_router_enable_expert_bias", "moe_router_dtype",
    "router_dtype", "moe_router_topk_scaling_factor", "use_expert_bias", "expert_bias", "moe_aux_loss_coeff",
    "moe_loss_weight", "moe_normalize_expert_weights", "router_scaling_factor", "router_score_function",
    "moe_apply_router_weight_on_input", "router_bias_update_rate", "moe_jitter_eps", "router_bias",
)  # fmt: skip
"""Keys that change what experts learn, not what they cost."""

LAYER_WORDS = {
    "full_attention": "full",
    "global": "full",
    "sliding_attention": "window",
    "chunked_attention": "window",
    "local": "window",
    "linear_attention": "linear",
}
"""Words of ``layer_types``."""

HYBRID_LETTERS = {
    "M": ("mamba", "none"), "E": ("none", "moe"), "*": ("full", "none"), "-": ("none", "dense"),
}  # fmt: skip
"""Letters of a Nemotron-H pattern: the mixer and the MLP of a layer."""

_RECURRENT = "a recurrence without attention"
_ENCODER = "an encoder-decoder"
_HYBRID = "hybrid layers whose sizes its file states in a dialect of its own"
_CROSS = "layers that attend to an image, cross-attention"
_SHARED_KEYS = "keys and values that layers share, cross-layer attention"
_LINEAR = "delta attention whose layers and sizes its file states in a dialect of its own"
REFUSED: dict[str, str] = {
    "rwkv": _RECURRENT, "rwkv5": _RECURRENT, "rwkv6": _RECURRENT, "rwkv7": _RECURRENT,
    "mamba": _RECURRENT, "mamba2": _RECURRENT, "falcon_mamba": _RECURRENT, "retnet": _RECURRENT,
    "recurrent_gemma": "RG-LRU recurrence", "xlstm": _RECURRENT,
    "t5": _ENCODER, "mt5": _ENCODER, "umt5": _ENCODER, "bart": _ENCODER, "mbart": _ENCODER,
    "pegasus": _ENCODER, "whisper": _ENCODER, "switch_transformers": _ENCODER,
    "nllb-moe": _ENCODER, "m2m_100": _ENCODER, "t5gemma": _ENCODER, "marian": _ENCODER,
    "bert": "an encoder", "roberta": "an encoder", "deberta-v2": "an encoder",
    "modernbert": "an encoder", "distilbert": "an encoder", "electra": "an encoder",
    "vit": "a vision encoder", "clip": "two encoders", "siglip": "two encoders",
    "jamba": _HYBRID, "zamba": _HYBRID, "zamba2": _HYBRID, "bamba": _HYBRID,
    "granitemoehybrid": _HYBRID, "falcon_h1": _HYBRID, "lfm2": _HYBRID,
    "minimax": "lightning attention layers", "minimax_m1": "lightning attention layers",
    "gemma3n": "per-layer embeddings and nested MLPs", "gemma3n_text": "per-layer embeddings",
    "gemma4": "two head widths by layer", "gemma4_text": "two head widths by layer",
    "openelm": "widths that differ by layer", "nemotron-nas": "widths that differ by layer",
    "deepseek_v32": "sparse attention by an indexer", "deepseek_v4": "compressed attention",
    "longcat_flash": "two attentions a layer, experts that compute nothing",
    "step3": "factorised attention", "step3_text": "factorised attention",
    "albert": "layers that share weights", "arctic": "a dense MLP beside the experts",
    "mllama": _CROSS, "mllama_text_model": _CROSS, "kimi_linear": _LINEAR,
    "hunyuan": _SHARED_KEYS, "hunyuan_v1_moe": _SHARED_KEYS, "hunyuan_moe_v1": _SHARED_KEYS,
    "minimax_text_01": "lightning attention layers", "deci_lm": "widths that differ by layer",
}  # fmt: skip
"""model_type, and the class of ``architectures`` of the same name -> why a `Model` cannot be it."""

REFUSED_KEYS: dict[str, str] = {
    "block_configs": "a model whose every block has its own widths",
    "cross_attention_layers": _CROSS,
    "use_cla": _SHARED_KEYS,
    "linear_attn_config": _LINEAR,
}
"""Key that says something, in whatever file -> why a `Model` cannot be it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What the code of a model_type fixes, or takes where its file is silent.

    ``ffn_is_expert``: the one width its file states is that of an expert. ``defaults``: numbers its published files
    leave out, by the names of `SPELLINGS`. ``value_heads_share_width``: a value head left out is
    hidden_size / num_heads wide. ``active_embedding`` as in `workloads.model.Model`.
    """

    gated: bool | None = True
    tied: bool = False
    positions: str = "rotary"
    extra_positions: int = 0
    norm: str = "rms"
    norm_weight: bool = True
    norm_bias: bool = False
    norms_per_layer: int = 2
    embedding_norm: bool = False
    qk_norm: str = ""
    qk_norm_has_no_weights: bool = False
    qkv_bias: bool = False
    qkv_bias_only: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_bias: bool = False
    parallel_block: bool = False
    ffn_ratio: int = 0
    ffn_counts_gate: bool = False
    grouped: bool = True
    states_head_dim: bool = False
    multi_query_flag: bool = False
    router_bias: bool = False
    shared_gate: bool = False
    shared_experts: int = 0
    window_period: int = 0
    window_needs_switch: bool = False
    attention_sinks: bool = False
    attention_gate: bool = False
    ffn_is_expert: bool = False
    value_heads_share_width: bool = False
    active_embedding: bool = True
    defaults: Mapping[str, int] = field(default_factory=dict)


LLAMA = Dialect()
GPT = Dialect(
    gated=False, tied=True, positions="learned", norm="layer", norm_bias=True, qkv_bias=True,
    out_bias=True, mlp_bias=True, ffn_ratio=4, grouped=False,
)  # fmt: skip
_BARE_GPT = replace(GPT, qkv_bias=False, out_bias=False, mlp_bias=False)
_QWEN = replace(LLAMA, qkv_bias=True, qkv_bias_only=True, window_needs_switch=True)
_QWEN3 = replace(LLAMA, qk_norm="head", states_head_dim=True, window_needs_switch=True)
_GEMMA2 = replace(LLAMA, tied=True, norms_per_layer=4, window_period=2)
_GEMMA3 = replace(
    _GEMMA2, qk_norm="head", window_period=6,
    defaults={
        "vocab_size": 262_208, "num_heads": 8, "num_kv_heads": 4, "head_dim": 256,
        "window_size": 4_096,
    },
)  # fmt: skip
_MIXTRAL = replace(LLAMA, ffn_is_expert=True)
_LLAMA4 = replace(_MIXTRAL, shared_experts=1, qk_norm_has_no_weights=True, window_period=4)
_DEEPSEEK2 = replace(LLAMA, active_embedding=False)
_DEEPSEEK3 = replace(_DEEPSEEK2, router_bias=True)
_COHERE = replace(LLAMA, tied=True, norm="layer", parallel_block=True, norms_per_layer=1)
_FALCON = replace(
    _BARE_GPT, positions="rotary", parallel_block=True, norms_per_layer=1, multi_query_flag=True
)
_GLM = replace(LLAMA, qkv_bias=True, qkv_bias_only=True)

DIALECTS: dict[str, Dialect] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "mistral3": LLAMA,
    "ministral": LLAMA,
    "mixtral": _MIXTRAL,
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "gpt2": GPT,
    "gpt_bigcode": replace(GPT, multi_query_flag=True),
    "gpt_neo": replace(GPT, qkv_bias=False),
    "gptj": replace(
        GPT, positions="rotary", tied=False, qkv_bias=False, out_bias=False, head_bias=True,
        parallel_block=True, norms_per_layer=1,
    ),
    "gpt_neox": replace(GPT, positions="rotary", tied=False, parallel_block=True),
    "opt": replace(GPT, extra_positions=2),
    "bloom": replace(GPT, positions="alibi", embedding_norm=True),
    "mpt": replace(_BARE_GPT, positions="alibi", norm_bias=False),
    "falcon": _FALCON,
    "refinedweb": _FALCON,
    "refinedwebmodel": _FALCON,
    "phi": replace(
        GPT, positions="rotary", tied=False, head_bias=True, parallel_block=True, norms_per_layer=1
    ),
    "phi3": LLAMA,
    "phimoe": replace(
        _MIXTRAL, norm="layer", norm_bias=True, qkv_bias=True, out_bias=True, head_bias=True
    ),
    "stablelm": replace(LLAMA, norm="layer", norm_bias=True),
    "starcoder2": replace(GPT, positions="rotary", grouped=True),
    "olmo": replace(LLAMA, norm="layer", norm_weight=False),
    "hf_olmo": replace(LLAMA, norm="layer", norm_weight=False, ffn_counts_gate=True),
    "olmo2": replace(LLAMA, qk_norm="full"),
    "olmo3": replace(LLAMA, qk_norm="full", window_period=4),
    "olmoe": replace(_MIXTRAL, qk_norm="full"),
    "qwen": replace(_QWEN, ffn_counts_gate=True),
    "qwen2": _QWEN,
    "qwen2_moe": replace(_QWEN, shared_gate=True),
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": _QWEN,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_next": replace(_QWEN3, attention_gate=True, shared_gate=True),
    "deepseek": LLAMA,
    "deepseek_v2": _DEEPSEEK2,
    "deepseek_v3": _DEEPSEEK3,
    "kimi_k2": _DEEPSEEK3,
    "gemma": replace(LLAMA, tied=True),
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, window_period=4),
    "gpt_oss": replace(
        _MIXTRAL, qkv_bias=True, out_bias=True, mlp_bias=True, router_bias=True, window_period=2,
        attention_sinks=True, active_embedding=False,
    ),
    "chatglm": _GLM,
    "glm": _GLM,
    "glm4": replace(_GLM, norms_per_layer=4),
    "glm4_moe": replace(_GLM, router_bias=True),
    "internlm": replace(LLAMA, qkv_bias=True, out_bias=True),
    "internlm2": LLAMA,
    "baichuan": LLAMA,
    "aquila": LLAMA,
    "yi": LLAMA,
    "nemotron": replace(LLAMA, gated=False, norm="layer", norm_bias=True),
    "nemotron_h": replace(_DEEPSEEK3, gated=False, positions="none"),
    "dbrx": replace(_MIXTRAL, norm="layer"),
    "granite": LLAMA,
    "granitemoe": _MIXTRAL,
    "minimax_m2": replace(_MIXTRAL, qk_norm="full", router_bias=True),
    "minicpm": replace(LLAMA, tied=True),
    "minicpm3": replace(LLAMA, tied=True, value_heads_share_width=True),
    "smollm3": replace(LLAMA, tied=True),
    "ernie4_5": replace(LLAMA, tied=True),
    "ernie4_5_moe": replace(LLAMA, tied=True),
    "": LLAMA,
}  # fmt: skip
"""model_type -> dialect; an unknown one is read as Llama's, and says so."""


def dialect_of(model_type: str) -> tuple[Dialect, bool]:
    """Return the dialect of a model_type and whether it is a known one."""
    found = DIALECTS.get(model_type.lower())
    if found is not None and model_type:
        return found, True
    return Dialect(gated=None), False
