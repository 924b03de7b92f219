"""The mixture-of-experts block: route, permute, dispatch, grouped products, combine.

Experts are spread over ``ep`` (whole experts) and ``etp`` (slices of one). Tokens travel by all-to-all over ep; every rank
sends ``experts_per_token`` copies of each of its tokens. Balanced routing: each expert gets the mean.
"""

from sim.kernels.shapes import GroupedGemm
from sim.program import Collective, Compute, Op
from workloads.layers.elementwise import activation, norm, residual
from workloads.layers.linear import replicated
from workloads.layers.mlp import mlp
from workloads.layers.part import Lanes, Part, lanes
from workloads.layers.sizes import Sizes
from workloads.model import LayerKind


def moe_block(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return norm, router, experts (shared ones first) and residual of one layer."""
    model = sizes.model
    parts = [norm(sizes, "mlp_norm")]
    if model.shared_width:
        parts += mlp(sizes, "shared", model.shared_width // sizes.plan.tp)
    parts += [replicated(sizes, "router", model.hidden_size, model.num_experts), _routing(sizes)]
    parts += experts(sizes)
    parts.append(residual(sizes, "mlp_add"))
    return parts


def routed_rows(sizes: Sizes) -> float:
    """Token copies a rank sends to experts (and, balanced, gets)."""
    tokens = sizes.tokens / sizes.plan.tp
    return tokens * sizes.model.experts_per_token


def _routing(sizes: Sizes) -> Part:
    scores = sizes.local_tokens * sizes.model.num_experts * 4.0
    return Part(
        name="topk",
        forward=lanes(sizes.elementwise("topk", "softmax", 3 * scores, "F", passes=2.0)),
        backward=lanes(sizes.elementwise("topk.bwd", "softmax", 2 * scores, "B", passes=2.0)),
        saved=scores,
    )


def experts(sizes: Sizes) -> list[Part]:
    """Return dispatch, experts and combine as parts; weights are those of routed experts."""
    model, plan = sizes.model, sizes.plan
    width = model.moe_latent_size or model.hidden_size
    rows = routed_rows(sizes)
    inner = model.expert_ffn_size // plan.etp
    gated = 2 if model.gated_mlp else 1
    return [
        _travel(sizes, "dispatch", rows, width),
        _grouped(sizes, "expert_up", rows * plan.etp, width, inner * gated),
        activation(sizes, "expert_act", inner, rows * plan.etp, gated=model.gated_mlp),
        _grouped(sizes, "expert_down", rows * plan.etp, inner, width),
        _travel(sizes, "combine", rows, width),
    ]


def _travel(sizes: Sizes, name: str, rows: float, width: int) -> Part:
    """Permute and send token copies (dispatch), or bring them back and sum them (combine)."""
    nbytes = rows * width * sizes.value
    outward = name == "dispatch"

    def way(phase: str, forward: bool) -> Lanes:
        permute = sizes.elementwise(f"{name}.permute", "permute", 2 * nbytes, phase, passes=2.0)
        ops: list[Op] = [*_exchange(sizes, name, nbytes, phase, gather=outward == forward)]
        return lanes(permute, *ops) if outward == forward else lanes(*ops, permute)

    return Part(
        name=name,
        forward=way("F", True),
        backward=way("B", False),
        saved=nbytes if outward else 0.0,
    )


def _exchange(sizes: Sizes, name: str, nbytes: float, phase: str, *, gather: bool) -> list[Op]:
    plan = sizes.plan
    ops: list[Op] = []
    if plan.ep > 1:
        ops.append(Collective(f"{name}.all_to_all", "all_to_all", "ep", nbytes, phase))
    if plan.etp > 1:
        kind = "all_gather" if gather else "reduce_scatter"
        slices = Collective(f"{name}.{kind}", kind, "etp", nbytes * plan.etp, phase)
        ops = [*ops, slices] if gather else [slices, *ops]
    return ops


def _grouped(sizes: Sizes, name: str, rows: float, inputs: int, outputs: int) -> Part:
    """Return one grouped product over the experts of a rank."""
    groups = sizes.model.num_experts // sizes.plan.ep
    mean = rows / groups
    dtype, value = sizes.gemm_dtype, sizes.value

    def product(label: str, n: int, k: int, phase: str, *, wgrad: bool = False) -> Compute:
        return Compute(label, GroupedGemm(groups, mean, n, k, dtype=dtype, wgrad=wgrad), phase)

    return Part(
        name=name,
        forward=lanes(*sizes.cast(f"{name}.cast", rows * inputs, "F"), product(name, outputs, inputs, "F")),
        backward=lanes(
            *sizes.cast(f"{name}.grad_cast", rows * outputs, "B"),
            product(f"{name}.dgrad", inputs, outputs, "B"),
        ),
        weight=lanes(product(f"{name}.wgrad", outputs, inputs, "W", wgrad=True)),
        saved=rows * inputs * value,
        kept=rows * (inputs + outputs) * value,
        weights=float(groups * inputs * outputs),
        expert_weights=float(groups * inputs * outputs),
    )
