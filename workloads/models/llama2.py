"""LLaMA (2302.13971, table 2) and Llama 2 (2307.09288): rotary, RMS norm, SwiGLU, untied, 32,000.

Source: config.json of meta-llama/Llama-2-*-hf, codellama/CodeLlama-34b-hf (the shape of Llama 2
34B), TinyLlama/TinyLlama-1.1B.
"""

from workloads.model import Model


def _llama(name: str, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=hidden // heads,
        ffn_size=ffn,
        vocab_size=32000,
    )


MODELS = (
    _llama("llama-7b", 32, 4096, 32, 32, 11008),
    _llama("llama-13b", 40, 5120, 40, 40, 13824),
    _llama("llama-33b", 60, 6656, 52, 52, 17920),
    _llama("llama-65b", 80, 8192, 64, 64, 22016),
    _llama("llama2-7b", 32, 4096, 32, 32, 11008),
    _llama("llama2-13b", 40, 5120, 40, 40, 13824),
    _llama("llama2-34b", 48, 8192, 64, 8, 22016),
    _llama("llama2-70b", 80, 8192, 64, 8, 28672),
    _llama("tinyllama-1.1b", 22, 2048, 32, 4, 5632),
)
