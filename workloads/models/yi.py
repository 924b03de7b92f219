"""Yi (2403.04652, table 1): Llama's design with grouped-query attention, vocabulary 64,000, untied.

Source: config.json of 01-ai/Yi-*.
"""

from workloads.model import Model


def _yi(name: str, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=128,
        ffn_size=ffn,
        vocab_size=64000,
    )


MODELS = (
    _yi("yi-6b", 32, 4096, 32, 4, 11008),
    _yi("yi-9b", 48, 4096, 32, 4, 11008),
    _yi("yi-34b", 60, 7168, 56, 8, 20480),
)
