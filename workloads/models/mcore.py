"""GPT shapes of the Megatron-Core weak-scaling table: vocabulary 131,072, untied, heads of 128.

Source: NVIDIA/Megatron-LM images/model_table.png; untied embeddings reproduce the names.
"""

from workloads.model import Model
from workloads.models.families import gpt

VOCAB = 131072
UNTIED = {"tied_embeddings": False, "max_positions": 4096}

MODELS = (
    Model(**gpt("mcore-gpt-1.7b", 24, 2048, 16, VOCAB, **UNTIED)),
    Model(**gpt("mcore-gpt-7.1b", 30, 4096, 32, VOCAB, **UNTIED)),
    Model(**gpt("mcore-gpt-16b", 32, 6144, 48, VOCAB, **UNTIED)),
    Model(**gpt("mcore-gpt-32b", 48, 7168, 56, VOCAB, **UNTIED)),
    Model(**gpt("mcore-gpt-70b", 84, 8192, 64, VOCAB, **UNTIED)),
    Model(**gpt("mcore-gpt-119b", 92, 10240, 80, VOCAB, **UNTIED)),
    Model(**gpt("mcore-gpt-177b", 96, 12288, 96, VOCAB, **UNTIED)),
    Model(**gpt("mcore-gpt-314b", 96, 16384, 128, VOCAB, **UNTIED)),
    Model(**gpt("mcore-gpt-462b", 112, 18432, 144, VOCAB, **UNTIED)),
)
