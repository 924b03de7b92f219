"""OLMo (2402.00838): layer norm without weights, no biases; OLMo 2 (2501.00656): RMS norms, QK norm.

Source: allenai/OLMo configs/official-0724/OLMo-7B.yaml (vocabulary 50,280 padded to 50,304);
config.json of allenai/OLMo-2-*.
"""

from workloads.model import Model


def _olmo(name: str, layers: int, hidden: int, heads: int, ffn: int, tied: bool = False) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=128,
        ffn_size=ffn,
        vocab_size=50304,
        tied_embeddings=tied,
        norm="layer",
        norm_weight=False,
    )


def _olmo2(name: str, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=128,
        ffn_size=ffn,
        vocab_size=100352,
        qk_norm="full",
    )


MODELS = (
    _olmo("olmo-1b", 16, 2048, 16, 8192, tied=True),
    _olmo("olmo-7b", 32, 4096, 32, 11008),
    _olmo2("olmo2-1b", 16, 2048, 16, 16, 8192),
    _olmo2("olmo2-7b", 32, 4096, 32, 32, 11008),
    _olmo2("olmo2-13b", 40, 5120, 40, 40, 13824),
    _olmo2("olmo2-32b", 64, 5120, 40, 8, 27648),
)
