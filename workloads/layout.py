"""Layout: which layers, and which ends, each stage of the pipeline holds."""

from dataclasses import dataclass

from workloads.model import LayerKind, Model
from workloads.plan import Plan
from workloads.routing import UNIFORM


@dataclass(frozen=True, slots=True)
class StageContent:
    """What one stage holds: embedding, layers (their kinds, first to last), final norm and head.

    ``mtp``: layers of multi-token prediction after the head; ``first``: number of the first layer in the model.
    """

    embedding: bool
    layers: tuple[LayerKind, ...]
    head: bool
    mtp: int = 0
    first: int = 0


def stage_contents(
    model: Model, plan: Plan, num_stages: int
) -> tuple[tuple[StageContent, ...], tuple[str, ...]]:
    """Return the content of every stage, and what had to be assumed.

    An explicit ``plan.layout`` is taken as it is. Else layers are spread evenly where they divide; counting embedding
    and head as a layer each where that divides (Llama 3 405B: 126 + 2 = 16 x 8); else the stages in the middle
    get the layers left over, since the first and the last also hold the ends.
    """
    counts, assumed = _counts(model, plan, num_stages)
    contents = []
    start = 0
    for stage, count in enumerate(counts):
        kinds = model.layer_kinds[start : start + count]
        last = stage == num_stages - 1
        extra = model.num_mtp_layers if last and plan.mtp else 0
        numbered = start if plan.routing != UNIFORM else 0
        contents.append(StageContent(stage == 0, tuple(kinds), last, extra, numbered))
        start += count
    return tuple(contents), assumed


def _counts(model: Model, plan: Plan, num_stages: int) -> tuple[list[int], tuple[str, ...]]:
    layers = model.num_layers
    if plan.layout:
        return list(plan.layout), ()
    if layers % num_stages == 0:
        return [layers // num_stages] * num_stages, ()
    if (layers + 2) % num_stages == 0:
        each = (layers + 2) // num_stages
        counts = [each] * num_stages
        counts[0] -= 1
        counts[-1] -= 1
        return counts, (f"layout: embedding and head count as layers, {each} a stage",)
    low, extra = divmod(layers, num_stages)
    first = (num_stages - extra) // 2
    counts = [low + (first <= stage < first + extra) for stage in range(num_stages)]
    return counts, (
        f"layout: {layers} layers on {num_stages} stages: {low} each, one more on stages {first} to "
        f"{first + extra - 1}",
    )
