"""The mixture-of-experts block: route, dispatch, grouped products, combine; shared experts beside.

Experts are spread over ``ep`` (whole experts) and ``etp`` (slices of one). Every rank routes its own tokens, each to
``experts_per_token`` experts. Experts that run at a width of their own (``moe_latent_size``) stand between
two projections. Where the software does so, shared experts compute while tokens travel.
"""

from dataclasses import replace

from sim.kernels.shapes import Gemm, GroupedGemm, Memory
from sim.program import Compute, Op, Signal, Wait
from workloads.layers.elementwise import activation, norm, residual
from workloads.layers.linear import replicated
from workloads.layers.mlp import mlp
from workloads.layers.part import COMPUTE, EP, Lanes, Part, again, join, lanes
from workloads.layers.precision import kept
from workloads.layers.sizes import Sizes
from workloads.layers.travel import Travel, small, travel
from workloads.model import LayerKind


def moe_block(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return norm, router, experts (shared ones too) and residual of one layer."""
    model = sizes.model
    parts = [norm(sizes, "mlp_norm"), _router(sizes), _routing(sizes)]
    if sizes.recomputes("norm"):
        parts[1] = again(parts[1], parts[0].forward, parts[1].saved)
    shared = _shared(sizes)
    latent = model.moe_latent_size
    projected = kept(sizes, "latent")
    inward = [replicated(projected, "latent_down", model.hidden_size, latent)] if latent else []
    outward = [replicated(projected, "latent_up", latent, model.hidden_size)] if latent else []
    if sizes.plan.switch("overlap_shared") and shared and sizes.plan.ep > 1:
        dispatch, *inside, combine = experts(sizes)
        up, down = shared[:-1], shared[-1:]
        parts += [*inward, _beside(dispatch, up), *inside, _beside(combine, down), *outward]
    else:
        parts += [*shared, *inward, *experts(sizes), *outward]
    if model.norms_per_layer == 4:
        parts.append(norm(sizes, "post_mlp_norm", branches=False))
    parts.append(residual(sizes, "mlp_add"))
    if sizes.recomputes("moe"):
        return [parts[0], *_all_again(parts[1:])]
    return parts


def _shared(sizes: Sizes) -> list[Part]:
    """Return the MLP every token passes; its input is the router's, kept once more only where quantised."""
    model = sizes.model
    if not model.shared_width:
        return []
    up, *rest = mlp(sizes, "shared", model.shared_width // sizes.plan.tp)
    copy = up.saved * sizes.stored / sizes.value if sizes.stored < sizes.value else 0.0
    parts = [replace(up, saved=copy), *rest]
    return _all_again(parts) if sizes.recomputes("shared_experts") else parts


def _all_again(parts: list[Part]) -> list[Part]:
    """Let parts run again before the last one's backward instead of keeping what they save."""
    held = sum(part.saved for part in parts)
    forward = join(part.forward for part in parts)
    return [*parts[:-1], again(parts[-1], forward, held)]


def _beside(trip: Part, parts: list[Part]) -> Part:
    """Let parts compute while a trip's transfers are under way: one part that does both."""
    parts_back = parts[::-1]

    def both(own: Lanes, others: Lanes, mark: str) -> Lanes:
        """Split a trip's ops at its transfers; those go to a stream of their own."""
        ops = own.get(COMPUTE, ())
        first = next((i for i, op in enumerate(ops) if not isinstance(op, Compute)), len(ops))
        last = max((i for i, op in enumerate(ops) if not isinstance(op, Compute)), default=-1)
        if last < 0:
            return join((own, others))
        go, came = f"ep.{mark}.go", f"ep.{mark}.came"
        before = lanes(*ops[:first], Signal((go,)))
        moving = {EP: (Wait((go,)), *ops[first : last + 1], Signal((came,)))}
        return join((before, moving, others, lanes(Wait((came,)), *ops[last + 1 :])))

    return Part(
        name=f"{trip.name}+{parts[0].name}",
        forward=both(trip.forward, join(p.forward for p in parts), "f"),
        backward=both(trip.backward, join(p.backward for p in parts_back), "b"),
        weight=join(p.weight for p in parts_back),
        fused=both(trip.backward, join(p.both for p in parts_back), "b"),
        saved=trip.saved + sum(p.saved for p in parts),
        kept=trip.kept + sum(p.kept for p in parts),
        weights=sum(p.weights for p in parts),
    )


def _router(sizes: Sizes) -> Part:
    """Return the projection to expert scores; it is not quantised."""
    t, h, n = sizes.local_tokens, sizes.model.hidden_size, sizes.model.num_experts
    dtype = sizes.wide_dtype

    def product(name: str, shape: tuple[int, int, int], phase: str) -> Compute:
        return Compute(name, Gemm(*shape, dtype=dtype, out_bytes=4.0), phase)

    return Part(
        name="router",
        forward=lanes(product("router", (t, n, h), "F")),
        backward=lanes(product("router.dgrad", (t, h, n), "B")),
        weight=lanes(product("router.wgrad", (n, h, t), "W")),
        saved=t * h * sizes.value,
        kept=t * (h + n) * sizes.value,
        weights=float(n * h + (n if sizes.model.router_bias else 0)),
    )


def _routing(sizes: Sizes) -> Part:
    """Return softmax (or sigmoid), top-k and the auxiliary loss on the scores, in fp32."""
    scores = sizes.local_tokens * sizes.model.num_experts * 4.0
    return Part(
        name="topk",
        forward=lanes(
            small(sizes, sizes.elementwise("topk", "softmax", 3 * scores, "F", passes=2.0))
        ),
        backward=lanes(
            small(sizes, sizes.elementwise("topk.bwd", "softmax", 2 * scores, "B", passes=2.0))
        ),
        saved=scores,
    )


def experts(sizes: Sizes) -> list[Part]:
    """Return dispatch, experts and combine as parts; weights are those of routed experts."""
    model, plan = sizes.model, sizes.plan
    trip = Travel(sizes)
    width, rows = trip.width, trip.rows_here * plan.etp
    inner = model.expert_ffn_size // plan.etp
    gated = 2 if model.gated_mlp else 1
    acted = activation(sizes, "expert_act", inner, rows, gated=model.gated_mlp)
    up = _grouped(
        sizes, "expert_up", trip, (width, inner * gated), quantised=trip.value < sizes.value
    )
    down = _grouped(sizes, "expert_down", trip, (inner, width))
    if sizes.recomputes("moe_act"):
        down = again(down, acted.forward, down.saved)
    return [travel(trip, "dispatch"), up, acted, down, travel(trip, "combine")]


def _grouped(
    sizes: Sizes, name: str, trip: Travel, shape: tuple[int, int], *, quantised: bool = False
) -> Part:
    """Return one grouped product over the experts of a rank; ``quantised``: its input comes in few bits."""
    inputs, outputs = shape
    groups, rows = trip.groups, trip.rows_here * sizes.plan.etp
    mean, largest = rows / groups, trip.largest * sizes.plan.etp
    software = sizes.software
    grad = sizes.grad if software.fused_wgrad else sizes.value
    # experts padded to one capacity are one batched product
    each = groups if software.grouped_loop and not sizes.plan.padded else 1

    def product(label: str, n: int, k: int, phase: str, *, wgrad: bool = False) -> Compute:
        kernel = GroupedGemm(
            groups, mean, n, k, dtype=sizes.gemm_dtype, wgrad=wgrad, m_max=largest,
            out_bytes=grad if wgrad else sizes.value,
        )  # fmt: skip
        return Compute(label, kernel, phase, launches=each, host_work=sizes.grouped_work(each))

    weights = float(groups * inputs * outputs)
    wgrad: list[Op] = [product(f"{name}.wgrad", outputs, inputs, "W", wgrad=True)]
    if not software.fused_wgrad and sizes.plan.num_microbatches > 1:
        wgrad.append(
            Compute(
                f"{name}.grad_add", Memory("add", weights * (sizes.value + 2 * sizes.grad)), "W"
            )
        )
    cast: tuple[Op, ...] = sizes.cast(f"{name}.cast", rows * inputs, "F", launches=each)
    if quantised:
        # tokens come quantised along rows: the weight gradient needs them along columns
        cast = ()
        nbytes = 2.0 * rows * inputs * sizes.stored
        wgrad.insert(0, Compute(f"{name}.transpose", Memory("cast", nbytes), "W"))
    biases = float(groups * outputs) if sizes.model.mlp_bias else 0.0
    return Part(
        name=name,
        forward=lanes(*cast, product(name, outputs, inputs, "F")),
        backward=lanes(
            *sizes.cast(f"{name}.grad_cast", rows * outputs, "B", launches=each),
            product(f"{name}.dgrad", inputs, outputs, "B"),
        ),
        weight=lanes(*wgrad),
        saved=rows * inputs * sizes.stored,
        kept=rows * (inputs + outputs) * sizes.stored,
        weights=weights + biases,
        expert_weights=weights + biases,
    )
