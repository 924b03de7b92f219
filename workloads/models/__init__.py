"""Models that ship: one file a family, one line here; the maker's lower-case dashed names."""

from workloads.model import Model
from workloads.models import gpt3, llama2, llama3, megatron
from workloads.models.names import find

FAMILIES = (gpt3, llama2, llama3, megatron)
MODELS: dict[str, Model] = {model.name: model for family in FAMILIES for model in family.MODELS}


def model(name: str) -> Model:
    """Return the preset called ``name``; spellings like ``llama-3.1-405b`` are understood. Raises `PlanError`."""
    return MODELS[find(name, tuple(MODELS))]
