"""OPT (2205.01068, table 1): GPT-3's shapes, vocabulary 50,272, two spare positions, tied.

Source: config.json of facebook/opt-*; the 350M (post-norm, narrow embedding) is left out.
"""

from workloads.model import Model
from workloads.models.families import gpt

VOCAB = 50272
ROWS = {"max_positions": 2050}

MODELS = (
    Model(**gpt("opt-125m", 12, 768, 12, VOCAB, **ROWS)),
    Model(**gpt("opt-1.3b", 24, 2048, 32, VOCAB, **ROWS)),
    Model(**gpt("opt-2.7b", 32, 2560, 32, VOCAB, **ROWS)),
    Model(**gpt("opt-6.7b", 32, 4096, 32, VOCAB, **ROWS)),
    Model(**gpt("opt-13b", 40, 5120, 40, VOCAB, **ROWS)),
    Model(**gpt("opt-30b", 48, 7168, 56, VOCAB, **ROWS)),
    Model(**gpt("opt-66b", 64, 9216, 72, VOCAB, **ROWS)),
    Model(**gpt("opt-175b", 96, 12288, 96, VOCAB, **ROWS)),
)
