"""Models that ship: one file a family, one line here; the maker's lower-case dashed names."""

from workloads.model import Model
from workloads.models import (
    bloom,
    deepseek,
    gemma,
    glm,
    gpt3,
    gpt_oss,
    grok,
    llama2,
    llama3,
    llama4,
    mcore,
    megatron,
    mixtral,
    mpt,
    nemotron,
    nemotron_hybrid,
    neox,
    olmo,
    opt,
    palm,
    pangu,
    qwen,
    yi,
    zero_bubble,
)
from workloads.models.names import find

FAMILIES: tuple[tuple[Model, ...], ...] = (
    bloom.MODELS,
    deepseek.MODELS,
    gemma.MODELS,
    glm.MODELS,
    gpt3.MODELS,
    gpt_oss.MODELS,
    grok.MODELS,
    llama2.MODELS,
    llama3.MODELS,
    llama4.MODELS,
    mcore.MODELS,
    megatron.MODELS,
    mixtral.MODELS,
    mpt.MODELS,
    nemotron.MODELS,
    nemotron_hybrid.MODELS,
    neox.MODELS,
    olmo.MODELS,
    opt.MODELS,
    palm.MODELS,
    pangu.MODELS,
    qwen.MODELS,
    yi.MODELS,
    zero_bubble.MODELS,
)
MODELS: dict[str, Model] = {model.name: model for family in FAMILIES for model in family}


def model(name: str) -> Model:
    """Return the preset called ``name``; other spellings are understood (`names.canonical`).

    Raises `PlanError` with near names.
    """
    return MODELS[find(name, tuple(MODELS))]
