"""Gemma 1 to 4: GeGLU, tied; from 2 on four norms a layer and local layers between global ones.

Source: Gemma (2403.08295, table 1), Gemma 2 (2408.00118, table 1: window 4,096, every other layer
global), Gemma 3 (2503.19786, table 1: five local layers to one global), config.json of
google/gemma*; Gemma 4 26B: AI-Hypercomputer/maxtext gemma4-26b.yml (25.2B, a dense MLP beside the
experts, here a shared expert). Gemma 4 31B is left out: its global heads are wider than its local.
"""

from typing import Any

from workloads.model import Model


def _gemma(
    name: str,
    layers: int,
    hidden: int,
    heads: tuple[int, int, int],
    ffn: int,
    vocab: int,
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
        tied_embeddings=True,
        **traits,
    )


SECOND: dict[str, Any] = {"norms_per_layer": 4, "window_size": 4096, "window_period": 2}
THIRD: dict[str, Any] = {
    "norms_per_layer": 4,
    "window_size": 1024,
    "window_period": 6,
    "qk_norm": "head",
}
FOURTH: dict[str, Any] = THIRD | {
    "num_experts": 128,
    "experts_per_token": 8,
    "expert_ffn_size": 704,
    "num_shared_experts": 1,
    "shared_ffn_size": 2112,
}

MODELS = (
    _gemma("gemma-2b", 18, 2048, (8, 1, 256), 16384, 256000),
    _gemma("gemma-7b", 28, 3072, (16, 16, 256), 24576, 256000),
    _gemma("gemma2-2b", 26, 2304, (8, 4, 256), 9216, 256000, **SECOND),
    _gemma("gemma2-9b", 42, 3584, (16, 8, 256), 14336, 256000, **SECOND),
    _gemma("gemma2-27b", 46, 4608, (32, 16, 128), 36864, 256000, **SECOND),
    _gemma("gemma3-1b", 26, 1152, (4, 1, 256), 6912, 262144, **(THIRD | {"window_size": 512})),
    _gemma("gemma3-4b", 34, 2560, (8, 4, 256), 10240, 262208, **THIRD),
    _gemma("gemma3-12b", 48, 3840, (16, 8, 256), 15360, 262208, **THIRD),
    _gemma("gemma3-27b", 62, 5376, (32, 16, 128), 21504, 262208, **THIRD),
    _gemma("gemma4-26b", 30, 2816, (16, 8, 256), 2112, 262144, **FOURTH),
)
