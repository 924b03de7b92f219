"""GPT shapes of the Zero Bubble paper (2401.10241, table 3).

The vocabulary is not printed: only 25.5 to 33.5 thousand, tied, reproduces all four names; 32,000.
"""

from workloads.model import Model
from workloads.models.families import gpt

VOCAB = 32000

MODELS = (
    Model(**gpt("zb-gpt-1.5b", 22, 2304, 24, VOCAB)),
    Model(**gpt("zb-gpt-6.2b", 30, 4096, 32, VOCAB)),
    Model(**gpt("zb-gpt-14.6b", 46, 5120, 40, VOCAB)),
    Model(**gpt("zb-gpt-28.3b", 62, 6144, 48, VOCAB)),
)
