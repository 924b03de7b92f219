"""GPT shapes of the Megatron papers: learned positions, layer norm, 4 h MLP, biases, tied, vocabulary 51,200.

Source: Narayanan et al. 2021 (2104.04473), table 1; Korthikanti et al. 2022 (2205.05198), table 3. Sequence
2,048 in both. The 175B and 530B of the second are its own rows (64 heads of 96 in the 22B).
"""

from workloads.model import Model


def _megatron(name: str, layers: int, hidden: int, heads: int, vocab: int = 51200) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=hidden // heads,
        ffn_size=4 * hidden,
        gated_mlp=False,
        vocab_size=vocab,
        tied_embeddings=True,
        positions="learned",
        max_positions=2048,
        norm="layer",
        norm_bias=True,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
    )


MODELS = (
    _megatron("megatron-gpt-1.7b", 24, 2304, 24),
    _megatron("megatron-gpt-3.6b", 30, 3072, 32),
    _megatron("megatron-gpt-7.5b", 36, 4096, 32),
    _megatron("megatron-gpt-18.4b", 40, 6144, 48),
    _megatron("megatron-gpt-39.1b", 48, 8192, 64),
    _megatron("megatron-gpt-76.1b", 60, 10240, 80),
    _megatron("megatron-gpt-145.6b", 80, 12288, 96),
    _megatron("megatron-gpt-310.1b", 96, 16384, 128),
    _megatron("megatron-gpt-529.6b", 105, 20480, 128),
    _megatron("megatron-gpt-1008b", 128, 25600, 160),
    _megatron("megatron-22b", 48, 6144, 64),
    _megatron("megatron-175b", 96, 12288, 96),
    _megatron("megatron-530b", 105, 20480, 128),
    _megatron("megatron-1t", 128, 25600, 160),
)
