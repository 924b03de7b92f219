"""GPT-3 (2005.14165, table 2.1): learned positions, layer norm, 4 h MLP, biases, tied.

Vocabulary 50,257 and 2,048 positions as in the paper's code release. The 13B's printed width 5,140 is read as
5,120 (40 heads of 128), the 2.7B's 32 heads of 80 are kept.
"""

from workloads.model import Model


def _gpt3(name: str, layers: int, hidden: int, heads: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=hidden // heads,
        ffn_size=4 * hidden,
        gated_mlp=False,
        vocab_size=50257,
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
    _gpt3("gpt3-125m", 12, 768, 12),
    _gpt3("gpt3-350m", 24, 1024, 16),
    _gpt3("gpt3-760m", 24, 1536, 16),
    _gpt3("gpt3-1.3b", 24, 2048, 16),
    _gpt3("gpt3-2.7b", 32, 2560, 32),
    _gpt3("gpt3-6.7b", 32, 4096, 32),
    _gpt3("gpt3-13b", 40, 5120, 40),
    _gpt3("gpt3-175b", 96, 12288, 96),
)
