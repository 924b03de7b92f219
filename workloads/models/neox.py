"""GPT-NeoX-20B (2204.06745, section 2): rotary, parallel block with two norms, untied; 20,554,567,680.

Source: config.json of EleutherAI/gpt-neox-20b.
"""

from workloads.model import Model
from workloads.models.families import gpt

NEOX = {"positions": "rotary", "max_positions": 0, "tied_embeddings": False, "parallel_block": True}

MODELS = (Model(**gpt("gpt-neox-20b", 44, 6144, 64, 50432, **NEOX)),)
