"""Qwen 1.5, 2, 2.5, 3 and 3-Next: biases on q, k, v up to 2.5; from 3 on a norm on q and k instead.

Source: config.json of Qwen/*; Qwen2 (2407.10671, table 1), Qwen3 (2505.09388, tables 1 and 2). Small
ones tie their embeddings. Qwen3-Next alternates three gated DeltaNet layers with one of attention.
"""

from typing import Any

from workloads.model import LayerKind, Model

SMALL_VOCAB, VOCAB = 151936, 152064


def _qwen(
    name: str,
    layers: int,
    hidden: int,
    heads: tuple[int, int, int],
    ffn: int,
    vocab: int = SMALL_VOCAB,
    **traits: Any,
) -> Model:
    """``heads``: query heads, key/value heads, width of one."""
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads[0],
        num_kv_heads=heads[1],
        head_dim=heads[2],
        ffn_size=ffn,
        vocab_size=vocab,
        **traits,
    )


BIAS: dict[str, Any] = {"qkv_bias": True}
TIED: dict[str, Any] = {"tied_embeddings": True}
NORM: dict[str, Any] = {"qk_norm": "head"}
NEXT_LAYERS = (*(LayerKind("linear", "moe"),) * 3, LayerKind("full", "moe")) * 12


def _experts(num: int, topk: int, ffn: int) -> dict[str, Any]:
    return {"num_experts": num, "experts_per_token": topk, "expert_ffn_size": ffn}


def _shared(ffn: int) -> dict[str, Any]:
    return {"num_shared_experts": 1, "shared_ffn_size": ffn, "shared_gate": True}


QWEN15 = (
    _qwen("qwen1.5-0.5b", 24, 1024, (16, 16, 64), 2816, **BIAS, **TIED),
    _qwen("qwen1.5-1.8b", 24, 2048, (16, 16, 128), 5504, **BIAS),
    _qwen("qwen1.5-4b", 40, 2560, (20, 20, 128), 6912, **BIAS),
    _qwen("qwen1.5-7b", 32, 4096, (32, 32, 128), 11008, **BIAS),
    _qwen("qwen1.5-14b", 40, 5120, (40, 40, 128), 13696, VOCAB, **BIAS),
    _qwen("qwen1.5-32b", 64, 5120, (40, 8, 128), 27392, VOCAB, **BIAS),
    _qwen("qwen1.5-72b", 80, 8192, (64, 64, 128), 24576, VOCAB, **BIAS),
    _qwen("qwen1.5-110b", 80, 8192, (64, 8, 128), 49152, VOCAB, **BIAS),
)
QWEN2 = tuple(
    _qwen(f"{series}-{size}", layers, hidden, heads, ffn, vocab, **BIAS, tied_embeddings=tied)
    for series in ("qwen2", "qwen2.5")
    for size, layers, hidden, heads, ffn, vocab, tied in (
        ("0.5b", 24, 896, (14, 2, 64), 4864, SMALL_VOCAB, True),
        ("1.5b", 28, 1536, (12, 2, 128), 8960, SMALL_VOCAB, True),
        ("7b", 28, 3584, (28, 4, 128), 18944, VOCAB, False),
        ("72b", 80, 8192, (64, 8, 128), 29568, VOCAB, False),
    )
)
QWEN25 = (
    _qwen("qwen2.5-3b", 36, 2048, (16, 2, 128), 11008, **BIAS, **TIED),
    _qwen("qwen2.5-14b", 48, 5120, (40, 8, 128), 13824, VOCAB, **BIAS),
    _qwen("qwen2.5-32b", 64, 5120, (40, 8, 128), 27648, VOCAB, **BIAS),
)
QWEN3 = (
    _qwen("qwen3-0.6b", 28, 1024, (16, 8, 128), 3072, **NORM, **TIED),
    _qwen("qwen3-1.7b", 28, 2048, (16, 8, 128), 6144, **NORM, **TIED),
    _qwen("qwen3-4b", 36, 2560, (32, 8, 128), 9728, **NORM, **TIED),
    _qwen("qwen3-8b", 36, 4096, (32, 8, 128), 12288, **NORM),
    _qwen("qwen3-14b", 40, 5120, (40, 8, 128), 17408, **NORM),
    _qwen("qwen3-32b", 64, 5120, (64, 8, 128), 25600, **NORM),
    _qwen("qwen3-30b-a3b", 48, 2048, (32, 4, 128), 6144, **NORM, **_experts(128, 8, 768)),
    _qwen("qwen3-235b-a22b", 94, 4096, (64, 4, 128), 12288, **NORM, **_experts(128, 8, 1536)),
)
MIXTURES = (
    _qwen(
        "qwen2-57b-a14b", 28, 3584, (28, 4, 128), 18944, **BIAS, **_experts(64, 8, 2560),
        **_shared(20480),
    ),
    _qwen(
        "qwen3-next-80b-a3b", 48, 2048, (16, 2, 256), 5120, **NORM, **_experts(512, 10, 512),
        **_shared(512), attention_gate=True, layer_types=NEXT_LAYERS, linear_num_key_heads=16,
        linear_num_value_heads=32, linear_key_head_dim=128, linear_value_head_dim=128,
    ),
)  # fmt: skip

MODELS = (*QWEN15, *QWEN2, *QWEN25, *QWEN3, *MIXTURES)
