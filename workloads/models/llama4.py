"""Llama 4, text part: one routed and one shared expert a token; Maverick's mixtures every other layer.

Source: config.json of meta-llama/Llama-4-*; AI-Hypercomputer/maxtext llama4-17b-{16e,128e}.yml.
Three layers of four attend within chunks of 8,192, here a window of that size.
"""

from workloads.model import Model


def _llama4(name: str, experts: int, moe_every: int) -> Model:
    return Model(
        name=name,
        num_layers=48,
        hidden_size=5120,
        num_heads=40,
        num_kv_heads=8,
        head_dim=128,
        ffn_size=16384,
        vocab_size=202048,
        num_experts=experts,
        experts_per_token=1,
        expert_ffn_size=8192,
        num_shared_experts=1,
        shared_ffn_size=8192,
        moe_every=moe_every,
        window_size=8192,
        window_period=4,
    )


MODELS = (_llama4("llama4-scout", 16, 1), _llama4("llama4-maverick", 128, 2))
