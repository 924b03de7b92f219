"""Step FLOPs: what one training step of a plan counts as, by convention, and what the hardware runs."""

from collections.abc import Callable

from workloads.counts import flops_per_token, layer_flops_per_token, scores_per_token
from workloads.documents import parse_documents
from workloads.matrices import layer_matrices
from workloads.model import SOFTMAX_MIXERS, LayerKind, Model
from workloads.plan import Plan
from workloads.recompute import repeated_share


def model_flops(model: Model, plan: Plan) -> dict[str, float]:
    """Return the step's model FLOPs by convention; ``hardware``: ``full`` plus recompute.

    ``full`` counts the whole attention matrix of a sequence, whatever documents it holds; ``causal`` half of it, or of
    the matrix of each document packed into it. Layers that predict further tokens are in none of them: the DeepSeek-V3
    report's MFU leaves them out too.
    """
    tokens = float(plan.global_batch) * plan.seq_len
    met = parse_documents(plan.documents).met_length if plan.documents else plan.seq_len
    full = flops_per_token(model, plan.seq_len, "full")
    return {
        "full": full * tokens,
        "causal": flops_per_token(model, met, "causal") * tokens,
        "hardware": (full + repeated_flops(model, plan)) * tokens,
    }


def repeated_flops(model: Model, plan: Plan) -> float:
    """Return the FLOPs a token that run again before a backward, whole attention matrices counted."""
    if plan.recompute == "none":
        return 0.0
    if plan.recompute == "full":
        whole = sum(
            layer_flops_per_token(model, kind, plan.seq_len, "full") for kind in model.layer_kinds
        )
        kept = sum(_kept(model, kind, plan.recompute_keeps) for kind in model.layer_kinds)
        return (whole - kept) * repeated_share(plan, model.num_layers)
    modules = set(plan.recompute_modules)
    if "moe" in modules:
        modules.discard("shared_experts")
    return sum(
        REPEATED[module](model, kind, plan.seq_len)
        for kind in model.layer_kinds
        for module in modules
    )


def _core(model: Model, kind: LayerKind, seq_len: int) -> float:
    if kind.attention not in SOFTMAX_MIXERS:
        return 0.0
    scores = scores_per_token(model, kind, seq_len, "full")
    return 2.0 * model.num_heads * (model.qk_dim + model.v_dim) * scores


def _products(model: Model, kind: LayerKind, wanted: Callable[[str, str], bool]) -> float:
    found = (m for m in layer_matrices(model, kind) if wanted(m.name, m.part))
    return sum(2.0 * matrix.num_active_params for matrix in found)


def _kept(model: Model, kind: LayerKind, keeps: tuple[str, ...]) -> float:
    """FLOPs of the products whose outputs a full recomputation keeps."""
    names = {"attn_out": "out", "mlp_up": "up", "mlp_down": "down"}
    wanted = {names.get(name, name) for name in keeps}
    return _products(
        model, kind, lambda name, part: name in wanted and part in ("attention", "mlp")
    )


def _latent(model: Model, kind: LayerKind, seq_len: int) -> float:
    return _products(model, kind, lambda name, part: name in ("q_up", "kv_up"))


def _mlp(model: Model, kind: LayerKind, seq_len: int) -> float:
    return _products(model, kind, lambda name, part: part == "mlp") if kind.mlp == "dense" else 0.0


def _moe(model: Model, kind: LayerKind, seq_len: int) -> float:
    outside = ("attention", "mixer")
    found = _products(model, kind, lambda name, part: part not in outside)
    return found if kind.mlp == "moe" else 0.0


def _shared(model: Model, kind: LayerKind, seq_len: int) -> float:
    return _products(model, kind, lambda name, part: name.startswith(("shared_up", "shared_down")))


def _halves(model: Model, kind: LayerKind, seq_len: int) -> float:
    """Half of all products but attention's (see `workloads.recompute`)."""
    whole = layer_flops_per_token(model, kind, seq_len, "full")
    return (whole - _core(model, kind, seq_len)) / 2.0


def _nothing(model: Model, kind: LayerKind, seq_len: int) -> float:
    return 0.0


REPEATED: dict[str, Callable[[Model, LayerKind, int], float]] = {
    "core_attn": _core,
    "mla_up_proj": _latent,
    "norm": _nothing,
    "mlp": _mlp,
    "moe_act": _nothing,
    "moe": _moe,
    "shared_experts": _shared,
    "op": _halves,
}
"""Forward FLOPs a token of what each word of ``recompute_modules`` repeats in a layer; norms count none."""
