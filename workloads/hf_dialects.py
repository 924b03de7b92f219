"""Dialects: how config.json files spell their keys, and what the code of a model_type fixes.

Source: the configuration and modelling code of the transformers library, by model_type.
"""

from dataclasses import dataclass, replace

SPELLINGS: dict[str, tuple[str, ...]] = {
    "num_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim"),
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
    "activation": ("hidden_act", "activation_function", "hidden_activation", "activation"),
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
    "window_period": ("sliding_window_pattern", "_sliding_window_pattern"),
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
}  # fmt: skip
"""model_type -> why a `Model` cannot be it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What the code of a model_type fixes, or takes where its file is silent."""

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


LLAMA = Dialect()
GPT = Dialect(
    gated=False, tied=True, positions="learned", norm="layer", norm_bias=True, qkv_bias=True,
    out_bias=True, mlp_bias=True, ffn_ratio=4, grouped=False,
)  # fmt: skip
_BARE_GPT = replace(GPT, qkv_bias=False, out_bias=False, mlp_bias=False)
_QWEN = replace(LLAMA, qkv_bias=True, qkv_bias_only=True, window_needs_switch=True)
_QWEN3 = replace(LLAMA, qk_norm="head", states_head_dim=True, window_needs_switch=True)
_GEMMA2 = replace(LLAMA, tied=True, norms_per_layer=4, window_period=2)
_GEMMA3 = replace(_GEMMA2, qk_norm="head", window_period=6)
_FALCON = replace(
    _BARE_GPT, positions="rotary", parallel_block=True, norms_per_layer=1, multi_query_flag=True
)
_GLM = replace(LLAMA, qkv_bias=True, qkv_bias_only=True)

DIALECTS: dict[str, Dialect] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "mistral3": LLAMA,
    "ministral": LLAMA,
    "mixtral": LLAMA,
    "llama4": replace(LLAMA, shared_experts=1, qk_norm_has_no_weights=True),
    "llama4_text": replace(LLAMA, shared_experts=1, qk_norm_has_no_weights=True),
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
    "stablelm": replace(LLAMA, norm="layer", norm_bias=True),
    "starcoder2": replace(GPT, positions="rotary", grouped=True),
    "olmo": replace(LLAMA, norm="layer", norm_weight=False),
    "hf_olmo": replace(LLAMA, norm="layer", norm_weight=False, ffn_counts_gate=True),
    "olmo2": replace(LLAMA, qk_norm="full"),
    "olmo3": replace(LLAMA, qk_norm="full", window_period=4),
    "olmoe": replace(LLAMA, qk_norm="full"),
    "qwen": replace(_QWEN, ffn_counts_gate=True),
    "qwen2": _QWEN,
    "qwen2_moe": replace(_QWEN, shared_gate=True),
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": _QWEN,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_next": replace(_QWEN3, attention_gate=True, shared_gate=True),
    "deepseek": LLAMA,
    "deepseek_v2": LLAMA,
    "deepseek_v3": replace(LLAMA, router_bias=True),
    "kimi_k2": replace(LLAMA, router_bias=True),
    "gemma": replace(LLAMA, tied=True),
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "cohere": replace(
        LLAMA, tied=True, norm="layer", parallel_block=True, norms_per_layer=1
    ),
    "gpt_oss": replace(
        LLAMA, qkv_bias=True, out_bias=True, mlp_bias=True, router_bias=True, window_period=2,
        attention_sinks=True,
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
    "nemotron_h": replace(LLAMA, gated=False, positions="none", router_bias=True),
    "dbrx": replace(LLAMA, norm="layer"),
    "granite": LLAMA,
    "granitemoe": LLAMA,
    "minicpm": replace(LLAMA, tied=True),
    "minicpm3": replace(LLAMA, tied=True),
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
