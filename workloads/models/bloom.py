"""BLOOM (2211.05100, table 3): ALiBi, a norm after the embedding, vocabulary 250,880, tied.

Source: config.json of bigscience/bloom*; the 176B counts 176,247,271,424.
"""

from workloads.model import Model
from workloads.models.families import gpt

VOCAB = 250880
ALIBI = {"positions": "alibi", "max_positions": 0, "embedding_norm": True}

MODELS = (
    Model(**gpt("bloom-560m", 24, 1024, 16, VOCAB, **ALIBI)),
    Model(**gpt("bloom-1b1", 24, 1536, 16, VOCAB, **ALIBI)),
    Model(**gpt("bloom-1b7", 24, 2048, 16, VOCAB, **ALIBI)),
    Model(**gpt("bloom-3b", 30, 2560, 32, VOCAB, **ALIBI)),
    Model(**gpt("bloom-7b1", 30, 4096, 32, VOCAB, **ALIBI)),
    Model(**gpt("bloom-176b", 70, 14336, 112, VOCAB, **ALIBI)),
)
