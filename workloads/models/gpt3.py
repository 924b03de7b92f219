"""GPT-3 (2005.14165, table 2.1): learned positions, layer norm, 4 h MLP, biases, tied.

Vocabulary 50,257 and 2,048 positions, as in GPT-2's code release. The 13B's printed width 5,140 is
read as 5,120 (40 heads of 128).
"""

from workloads.model import Model
from workloads.models.families import gpt

VOCAB = 50257

MODELS = (
    Model(**gpt("gpt3-125m", 12, 768, 12, VOCAB)),
    Model(**gpt("gpt3-350m", 24, 1024, 16, VOCAB)),
    Model(**gpt("gpt3-760m", 24, 1536, 16, VOCAB)),
    Model(**gpt("gpt3-1.3b", 24, 2048, 16, VOCAB)),
    Model(**gpt("gpt3-2.7b", 32, 2560, 32, VOCAB)),
    Model(**gpt("gpt3-6.7b", 32, 4096, 32, VOCAB)),
    Model(**gpt("gpt3-13b", 40, 5120, 40, VOCAB)),
    Model(**gpt("gpt3-175b", 96, 12288, 96, VOCAB)),
)
