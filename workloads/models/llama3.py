"""Llama 3 (2407.21783, table 3): grouped-query attention, 8 key/value heads, vocabulary 128,256.

Source: config.json of meta-llama/Llama-3.1-* and Llama-3.2-* (the small ones tied).
"""

from workloads.model import Model


def _llama3(name: str, layers: int, hidden: int, heads: int, ffn: int, tied: bool = False) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=8,
        head_dim=hidden // heads,
        ffn_size=ffn,
        vocab_size=128256,
        tied_embeddings=tied,
    )


MODELS = (
    _llama3("llama3-8b", 32, 4096, 32, 14336),
    _llama3("llama3-70b", 80, 8192, 64, 28672),
    _llama3("llama3-405b", 126, 16384, 128, 53248),
    _llama3("llama3.2-1b", 16, 2048, 32, 8192, tied=True),
    _llama3("llama3.2-3b", 28, 3072, 24, 8192, tied=True),
)
