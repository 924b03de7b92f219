"""Context places: which ranks that share a sequence differ in work, scripts by place, the groups of a mixed span."""

import numpy as np

from workloads.documents import parse_documents
from workloads.expert_loads import expert_kinds
from workloads.layers.context import INNER, OUTER, spread_of
from workloads.mesh import coordinates, expert_places
from workloads.model import SOFTMAX_MIXERS, Model
from workloads.packing import DRAWS, step_scores
from workloads.plan import Plan


def script_places(model: Model, plan: Plan) -> tuple[list[tuple[int, int, int]], np.ndarray]:
    """Return the place of each script in the pipeline, among experts and on cp, and the script of every rank.

    The last two places are told apart only where their work differs.
    """
    here = coordinates(plan)
    experts = expert_kinds(model, plan)[expert_places(plan)]
    code = (here["pp"] * plan.ep + experts) * plan.cp + context_kinds(model, plan)[here["cp"]]
    found, script_of_rank = np.unique(code, return_inverse=True)
    places = [
        (c // plan.cp // plan.ep, c // plan.cp % plan.ep, c % plan.cp) for c in found.tolist()
    ]
    return places, script_of_rank.reshape(-1)


def context_kinds(model: Model, plan: Plan) -> np.ndarray:
    """Return, for each place on cp, the first place of a ring that has the same scores in every round: (cp,)."""
    if not plan.uneven_context:
        return np.zeros(plan.cp, dtype=np.int64)
    mixers = {kind.attention for kind in model.layer_kinds} & set(SOFTMAX_MIXERS)
    windows = {model.window_size if mixer == "window" else 0 for mixer in mixers}
    draws = range(DRAWS if plan.draws_documents else 1)
    spread = spread_of(plan)
    tables = [step_scores(spread, window, draw) for window in sorted(windows) for draw in draws]
    if not tables:
        return np.zeros(plan.cp, dtype=np.int64)
    _, first, kind = np.unique(
        np.concatenate(tables, axis=1), axis=0, return_index=True, return_inverse=True
    )
    return np.asarray(np.repeat(first[kind.reshape(-1)], plan.cp // plan.ring_ranks))


def context_groups(plan: Plan, whole: np.ndarray) -> dict[str, np.ndarray]:
    """Return the groups of a mixed span: neighbours that swap heads, and one of each of those that pass keys round."""
    if not plan.context_inner:
        return {}
    cube = whole.reshape(len(whole), -1, plan.context_inner)
    return {
        INNER: cube.reshape(-1, plan.context_inner),
        OUTER: np.ascontiguousarray(cube.transpose(0, 2, 1).reshape(-1, cube.shape[1])),
    }


def packed(plan: Plan) -> tuple[str, ...]:
    """Return what a replay assumes about documents."""
    if not plan.documents:
        return ()
    documents = parse_documents(plan.documents)
    said = (
        f"documents of {documents.mean_length:.0f} tokens on average are packed whole and without gaps; mfu counts the "
        f"whole attention matrix of a sequence, mfu_causal half of each document's"
    )
    if not plan.draws_documents:
        return (said,)
    drawn = (
        f"where documents stand is drawn with document_seed={plan.document_seed}, {DRAWS} packings a step, the same in "
        f"every data-parallel replica and as many scores in each"
    )
    return said, drawn
