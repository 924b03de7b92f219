"""Llama 3 (2407.21783, table 3): grouped-query attention, vocabulary 128,256, untied.

Source: config.json of meta-llama/Llama-3.1-*; the 405B has 8 key/value heads.
"""

from workloads.model import Model


def _llama3(name: str, layers: int, hidden: int, heads: int, ffn: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=8,
        head_dim=128,
        ffn_size=ffn,
        vocab_size=128256,
    )


MODELS = (
    _llama3("llama3-8b", 32, 4096, 32, 14336),
    _llama3("llama3-70b", 80, 8192, 64, 28672),
    _llama3("llama3-405b", 126, 16384, 128, 53248),
)
