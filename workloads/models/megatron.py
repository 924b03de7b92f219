"""GPT shapes of the Megatron papers: learned positions, biases, tied, vocabulary 51,200.

Source: Narayanan et al. 2021 (2104.04473), table 1; Korthikanti et al. 2022 (2205.05198), table 3;
Megatron-Turing NLG (2201.11990), section 2.3 (vocabulary 50,257 padded to 50,272). Sequence 2,048.
"""

from workloads.model import Model
from workloads.models.families import gpt

VOCAB = 51200

MODELS = (
    Model(**gpt("megatron-gpt-1.7b", 24, 2304, 24, VOCAB)),
    Model(**gpt("megatron-gpt-3.6b", 30, 3072, 32, VOCAB)),
    Model(**gpt("megatron-gpt-7.5b", 36, 4096, 32, VOCAB)),
    Model(**gpt("megatron-gpt-18.4b", 40, 6144, 48, VOCAB)),
    Model(**gpt("megatron-gpt-39.1b", 48, 8192, 64, VOCAB)),
    Model(**gpt("megatron-gpt-76.1b", 60, 10240, 80, VOCAB)),
    Model(**gpt("megatron-gpt-145.6b", 80, 12288, 96, VOCAB)),
    Model(**gpt("megatron-gpt-310.1b", 96, 16384, 128, VOCAB)),
    Model(**gpt("megatron-gpt-529.6b", 105, 20480, 128, VOCAB)),
    Model(**gpt("megatron-gpt-1008b", 128, 25600, 160, VOCAB)),
    Model(**gpt("megatron-22b", 48, 6144, 64, VOCAB)),
    Model(**gpt("megatron-175b", 96, 12288, 96, VOCAB)),
    Model(**gpt("megatron-530b", 105, 20480, 128, VOCAB)),
    Model(**gpt("megatron-1t", 128, 25600, 160, VOCAB)),
    Model(**gpt("mt-nlg-530b", 105, 20480, 128, 50272)),
)
