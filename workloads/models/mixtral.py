"""Mistral 7B (2310.06825, table 1) and Mixtral (2401.04088, table 1): 8 experts, 2 a token.

Source: config.json of mistralai/*; Mixtral 8x22B with the 32,768 vocabulary of its release notes
(141B, 39B active). Mistral 7B v0.1 attends to 4,096 keys.
"""

from workloads.model import Model


def _mistral(
    name: str,
    layers: int,
    hidden: int,
    heads: int,
    ffn: int,
    vocab: int = 32000,
    experts: int = 0,
    window: int = 0,
) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=8,
        head_dim=128,
        ffn_size=ffn,
        vocab_size=vocab,
        num_experts=experts,
        experts_per_token=2 if experts else 0,
        expert_ffn_size=ffn if experts else 0,
        window_size=window,
    )


MODELS = (
    _mistral("mistral-7b", 32, 4096, 32, 14336, window=4096),
    _mistral("mixtral-8x7b", 32, 4096, 32, 14336, experts=8),
    _mistral("mixtral-8x22b", 56, 6144, 48, 16384, vocab=32768, experts=8),
)
