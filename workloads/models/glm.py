"""ChatGLM3 and GLM-4: 2 key/value groups, biases on q, k, v, untied.

Source: config.json of THUDM/chatglm3-6b and THUDM/glm-4-9b.
"""

from workloads.model import Model


def _glm(name: str, layers: int, vocab: int) -> Model:
    return Model(
        name=name,
        num_layers=layers,
        hidden_size=4096,
        num_heads=32,
        num_kv_heads=2,
        head_dim=128,
        ffn_size=13696,
        vocab_size=vocab,
        qkv_bias=True,
    )


MODELS = (_glm("chatglm3-6b", 28, 65024), _glm("glm4-9b", 40, 151552))
