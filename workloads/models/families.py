"""Families: the traits shapes have in common, so that a preset file states only what differs."""

from typing import Any

GPT: dict[str, Any] = {
    "gated_mlp": False,
    "tied_embeddings": True,
    "positions": "learned",
    "norm": "layer",
    "norm_bias": True,
    "qkv_bias": True,
    "out_bias": True,
    "mlp_bias": True,
}
"""GPT-2 and its heirs: learned positions, layer norm, ungated MLP, biases, tied embeddings."""

LATENT_128: dict[str, Any] = {
    "head_dim": 192,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
"""Multi-head latent attention as every DeepSeek since V2 sizes it (2405.04434, section 3.1.2)."""


def gpt(
    name: str, layers: int, hidden: int, heads: int, vocab: int, **traits: Any
) -> dict[str, Any]:
    """Return the numbers of a GPT shape: MLP of 4 h, heads of h / heads, 2,048 positions."""
    sizes = {
        "name": name,
        "num_layers": layers,
        "hidden_size": hidden,
        "num_heads": heads,
        "num_kv_heads": heads,
        "head_dim": hidden // heads,
        "ffn_size": 4 * hidden,
        "vocab_size": vocab,
        "max_positions": 2048,
    }
    return GPT | sizes | traits
