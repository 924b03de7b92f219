"""Nemotron: 3 and 4 are dense with squared ReLU, layer norm, rotary, untied, vocabulary 256,000.

Source: NVIDIA/NeMo nemotron.py; Nemotron-4 15B (2402.16819, table 1), 340B (2406.11704, table 1).
The Nemotron 3 hybrids are in ``nemotron_hybrid``.
"""

from workloads.model import Model


def _nemotron(name: str, layers: int, hidden: int, heads: int, kv_heads: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=hidden // heads,
        ffn_size=4 * hidden,
        gated_mlp=False,
        vocab_size=256000,
        norm="layer",
        norm_bias=True,
    )


MODELS = (
    _nemotron("nemotron3-8b", 32, 4096, 32, 32),
    _nemotron("nemotron3-22b", 40, 6144, 48, 48),
    _nemotron("nemotron4-15b", 32, 6144, 48, 8),
    _nemotron("nemotron4-340b", 96, 18432, 96, 8),
)
