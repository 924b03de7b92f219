"""Pangu Ultra (2504.07866): dense 135B, sandwich norms; Pangu Ultra MoE (2505.04519): 718B.

Shapes as the two reports state them; vocabulary 153,376 in both; of the mixture 39B are active,
the embedding lookup left out.
"""

from workloads.model import Model
from workloads.models.families import LATENT_128

MODELS = (
    Model(
        name="pangu-ultra-135b",
        num_layers=94,
        hidden_size=12288,
        num_heads=96,
        num_kv_heads=8,
        head_dim=128,
        ffn_size=28672,
        vocab_size=153376,
        norms_per_layer=4,
    ),
    Model(
        name="pangu-ultra-moe-718b",
        num_layers=61,
        hidden_size=7680,
        num_heads=128,
        num_kv_heads=128,
        ffn_size=18432,
        vocab_size=153376,
        norms_per_layer=4,
        num_experts=256,
        experts_per_token=8,
        expert_ffn_size=2048,
        num_shared_experts=1,
        shared_ffn_size=2048,
        num_dense_layers=3,
        q_lora_rank=1536,
        active_embedding=False,
        **LATENT_128,
    ),
)
