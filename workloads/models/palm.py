"""PaLM (2204.02311, table 1): multi-query attention, SwiGLU, parallel block with one norm, tied.

8.63B, 62.50B and 540.35B with the 256,000-token vocabulary shared; no biases anywhere.
"""

from workloads.model import Model


def _palm(name: str, layers: int, hidden: int, heads: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=1,
        head_dim=256,
        ffn_size=4 * hidden,
        vocab_size=256000,
        tied_embeddings=True,
        norm="layer",
        norms_per_layer=1,
        parallel_block=True,
    )


MODELS = (
    _palm("palm-8b", 32, 4096, 16),
    _palm("palm-62b", 64, 8192, 32),
    _palm("palm-540b", 118, 18432, 48),
)
