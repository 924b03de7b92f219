"""Step FLOPs: what one training step of a plan counts as, by convention, and what the hardware runs."""

from workloads.counts import flops_per_token, layer_flops_per_token, scores_per_token
from workloads.model import SOFTMAX_MIXERS, Model
from workloads.plan import Plan
from workloads.recompute import repeated_share


def model_flops(model: Model, plan: Plan) -> dict[str, float]:
    """Return the step's model FLOPs by convention; ``hardware``: ``full`` plus recompute."""
    tokens = float(plan.global_batch) * plan.seq_len
    full = flops_per_token(model, plan.seq_len, "full")
    again = 0.0
    if plan.recompute != "none":
        for kind in model.layer_kinds:
            if plan.recompute == "full":
                again += layer_flops_per_token(model, kind, plan.seq_len, "full")
            elif kind.attention in SOFTMAX_MIXERS:
                scores = scores_per_token(model, kind, plan.seq_len, "full")
                again += 2.0 * model.num_heads * (model.qk_dim + model.v_dim) * scores
    if plan.recompute == "full":
        again *= repeated_share(plan, model.num_layers)
    return {
        "full": full * tokens,
        "causal": flops_per_token(model, plan.seq_len, "causal") * tokens,
        "hardware": (full + again) * tokens,
    }
