"""Grok-1: 8 experts, 2 a token, four norms a layer, tied.

Source: xai-org/grok-1 run.py. Its announced 314B leaves the embedding out (315.7B with it).
"""

from workloads.model import Model

MODELS = (
    Model(
        name="grok1-314b",
        num_layers=64,
        hidden_size=6144,
        num_heads=48,
        num_kv_heads=8,
        head_dim=128,
        ffn_size=32768,
        vocab_size=131072,
        tied_embeddings=True,
        norms_per_layer=4,
        num_experts=8,
        experts_per_token=2,
        expert_ffn_size=32768,
    ),
)
