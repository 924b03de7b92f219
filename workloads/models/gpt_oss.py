"""gpt-oss (2508.10925, table 1): 4 experts a token, biases, attention sinks, windows of 128.

116.83B (5.13B active) and 20.91B (3.61B active); active counts leave the embedding out, as the
model card says. Every other layer, the first included, sees 128 keys. Source: config.json.
"""

from workloads.model import Model


def _gpt_oss(name: str, layers: int, experts: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=2880,
        num_heads=64,
        num_kv_heads=8,
        head_dim=64,
        ffn_size=2880,
        vocab_size=201088,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        router_bias=True,
        num_experts=experts,
        experts_per_token=4,
        expert_ffn_size=2880,
        window_size=128,
        window_period=2,
        attention_sinks=True,
        active_embedding=False,
    )


MODELS = (_gpt_oss("gpt-oss-20b", 24, 32), _gpt_oss("gpt-oss-120b", 36, 128))
