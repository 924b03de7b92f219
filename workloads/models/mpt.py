"""MPT: ALiBi, layer norm without biases, no biases at all, tied, vocabulary 50,368.

Source: mosaicml/llm-foundry scripts/train/yamls/pretrain/mpt-*.yaml.
"""

from workloads.model import Model
from workloads.models.families import gpt

VOCAB = 50368
BARE = {
    "positions": "alibi",
    "max_positions": 0,
    "norm_bias": False,
    "qkv_bias": False,
    "out_bias": False,
    "mlp_bias": False,
}

MODELS = (
    Model(**gpt("mpt-125m", 12, 768, 12, VOCAB, **BARE)),
    Model(**gpt("mpt-350m", 24, 1024, 16, VOCAB, **BARE)),
    Model(**gpt("mpt-760m", 24, 1536, 12, VOCAB, **BARE)),
    Model(**gpt("mpt-1b", 24, 2048, 16, VOCAB, **BARE)),
    Model(**gpt("mpt-3b", 32, 2560, 20, VOCAB, **BARE)),
    Model(**gpt("mpt-7b", 32, 4096, 32, VOCAB, **BARE)),
    Model(**gpt("mpt-13b", 40, 5120, 40, VOCAB, **BARE)),
    Model(**gpt("mpt-30b", 48, 7168, 56, VOCAB, **BARE)),
    Model(**gpt("mpt-70b", 80, 8192, 64, VOCAB, **BARE)),
)
