"""Layout: which layers, and which ends, each stage of the pipeline holds."""

from dataclasses import dataclass
from itertools import groupby

from workloads.counts import layer_flops_per_token
from workloads.model import LayerKind, Model, kind_counts
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
    and head as a layer each where that divides (Llama 3 405B: 126 + 2 = 16 x 8); else by FLOPs: head and multi-token
    prediction weigh on the last stage (DeepSeek-V3's recipes leave it a single layer of 61).
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
    counts = _balanced(layers, num_stages, _last_load(model, plan))
    return counts, (
        f"layout: {layers} layers on {num_stages} stages: balanced by FLOPs: {_runs(counts)}",
    )


def _last_load(model: Model, plan: Plan) -> float:
    """FLOPs of the head, and of multi-token prediction where it is trained, in those of a mean layer."""
    kinds = kind_counts(model).items()
    layers = sum(n * layer_flops_per_token(model, kind, plan.seq_len) for kind, n in kinds)
    head = 2.0 * model.hidden_size * model.vocab_size
    load = head * model.num_layers / layers
    return load + model.num_mtp_layers * model.mtp_passes * (1.0 + load) if plan.mtp else load


def _balanced(layers: int, num_stages: int, last_load: float) -> list[int]:
    """Give each layer to the stage with the least to do; of equals, to one in the middle.

    >>> _balanced(7, 3, 0.1), _balanced(61, 16, 4.4)
    ([2, 3, 2], [4, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0])
    """
    counts = [0] * num_stages
    order = [*range(1, num_stages - 1), 0, num_stages - 1]
    for _ in range(layers):
        counts[
            min(order, key=lambda s: counts[s] + (last_load if s == num_stages - 1 else 0.0))
        ] += 1
    return counts


def _runs(counts: list[int]) -> str:
    """Write counts as runs of equals.

    >>> _runs([2, 3, 3, 2])
    '2, 3 (x2), 2'
    """
    runs = [(count, len(list(same))) for count, same in groupby(counts)]
    return ", ".join(str(count) if n == 1 else f"{count} (x{n})" for count, n in runs)
