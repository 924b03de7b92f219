"""DeepSeek LLM, V2 and V3, and Kimi K2 and Moonlight, which share V3's design.

Source: DeepSeek LLM (2401.02954, table 2), V2 (2405.04434, section 3.1.2 and appendix B), V3
(2412.19437, section 4.2: 671B, 37B active, one multi-token-prediction layer), config.json of
deepseek-ai/* and moonshotai/*. The reports' active counts leave the embedding lookup out.
"""

from typing import Any

from workloads.model import Model
from workloads.models.families import LATENT_128


def _dense(name: str, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=128,
        ffn_size=ffn,
        vocab_size=102400,
    )


def _mixture(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    ffn: int,
    vocab: int,
    **traits: Any,
) -> Model:
    sizes = {
        "name": name,
        "num_layers": layers,
        "hidden_size": hidden,
        "num_heads": heads,
        "num_kv_heads": heads,
        "ffn_size": ffn,
        "vocab_size": vocab,
        "shared_ffn_size": traits["expert_ffn_size"],
        "active_embedding": False,
    }
    return Model(**(LATENT_128 | sizes | traits))


MODELS = (
    _dense("deepseek-llm-7b", 30, 4096, 32, 32, 11008),
    _dense("deepseek-llm-67b", 95, 8192, 64, 8, 22016),
    _mixture(
        "deepseek-v2-lite", 27, 2048, 16, 10944, 102400,
        num_experts=64, experts_per_token=6, expert_ffn_size=1408, num_shared_experts=2,
        num_dense_layers=1,
    ),
    _mixture(
        "deepseek-v2", 60, 5120, 128, 12288, 102400,
        num_experts=160, experts_per_token=6, expert_ffn_size=1536, num_shared_experts=2,
        num_dense_layers=1, q_lora_rank=1536, num_routing_groups=8, routed_groups_per_token=3,
    ),
    _mixture(
        "deepseek-v3", 61, 7168, 128, 18432, 129280,
        num_experts=256, experts_per_token=8, expert_ffn_size=2048, num_shared_experts=1,
        num_dense_layers=3, q_lora_rank=1536, router_bias=True, num_mtp_layers=1,
        num_routing_groups=8, routed_groups_per_token=4,
    ),
    _mixture(
        "kimi-k2", 61, 7168, 64, 18432, 163840,
        num_experts=384, experts_per_token=8, expert_ffn_size=2048, num_shared_experts=1,
        num_dense_layers=1, q_lora_rank=1536, router_bias=True,
    ),
    _mixture(
        "moonlight-16b-a3b", 27, 2048, 16, 11264, 163840,
        num_experts=64, experts_per_token=6, expert_ffn_size=1408, num_shared_experts=2,
        num_dense_layers=1, router_bias=True,
    ),
)  # fmt: skip
