"""Attention blocks: projections split over tp, the core over cp.

How the core spans cp: ``all_gather`` gathers keys and values first (Llama 3 report, section 3.3.2);
``ring`` passes them round while it computes (Liu et al. 2023), in zigzag order so that causal work
is even; ``ulysses`` swaps sequence for heads by all-to-all (Jacobs et al. 2023).
"""

from collections.abc import Callable
from dataclasses import replace

from sim.errors import PlanError
from sim.kernels.shapes import Attention, Gemm, Memory
from sim.program import Collective, Compute, Op, Wait
from workloads.layers.elementwise import norm, residual, rotary
from workloads.layers.linear import column, replicated, row
from workloads.layers.part import Lanes, Part, again, join, lanes
from workloads.layers.sizes import Sizes
from workloads.model import LayerKind


def attention_block(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return norm, projections, core and residual of one layer."""
    model, tp = sizes.model, sizes.plan.tp
    heads = model.num_heads // tp
    kv_heads = max(model.num_kv_heads // tp, 1)
    h = model.hidden_size
    window = model.window_size if kind.attention == "window" else 0
    parts = [norm(sizes, "attn_norm")]
    if model.is_mla:
        parts += _latent_projections(sizes, heads)
        kv_heads = heads
    else:
        queries = heads * model.head_dim * (2 if model.attention_gate else 1)
        outputs = queries + kv_heads * (model.qk_dim + model.v_dim)
        parts.append(column(sizes, "qkv", h, outputs, bias=model.qkv_bias))
    if model.positions == "rotary":
        rotary_dim = model.qk_rope_head_dim if model.is_mla else model.head_dim
        parts.append(rotary(sizes, heads, kv_heads, rotary_dim))
    if not sizes.software.packed_qkv:
        parts.append(_copies(sizes, heads, kv_heads))
    spread = core(sizes, heads, kv_heads, window)
    if sizes.recomputes("norm"):
        parts[1] = again(parts[1], parts[0].forward, parts[1].saved)
    if sizes.plan.recompute == "selective" and not sizes.recomputes("core_attn"):
        spread = replace(spread, recomputed={}, recomputed_bytes=0.0)
    if sizes.recomputes("mla_up_proj") and model.is_mla:
        ups = join(part.forward for part in parts if part.name in ("q_up", "kv_up", "rotary"))
        spread = again(spread, ups, _qkv_bytes(sizes, heads, kv_heads))
    parts.append(spread)
    parts.append(row(sizes, "attn_out", heads * model.v_dim, h, bias=model.out_bias))
    if model.norms_per_layer == 4:
        parts.append(norm(sizes, "post_attn_norm", branches=False))
    parts.append(residual(sizes, "attn_add"))
    return parts


def _copies(sizes: Sizes, heads: int, kv_heads: int) -> Part:
    """Return the copy that joins the gradients of q, k and v for their common projection."""
    nbytes = 2.0 * _qkv_bytes(sizes, heads, kv_heads)
    return Part(name="qkv_join", backward=lanes(Compute("qkv.join", Memory("copy", nbytes), "B")))


def _latent_projections(sizes: Sizes, heads: int) -> list[Part]:
    """DeepSeek's multi-head latent attention: down-projections whole on each rank, up-projections by heads."""
    model = sizes.model
    h = model.hidden_size
    kv_down = replicated(sizes, "kv_down", h, model.kv_lora_rank + model.qk_rope_head_dim)
    kv_down = replace(kv_down, saved=0.0)  # its input is kept for the queries
    kv_up = column(
        sizes, "kv_up", model.kv_lora_rank, heads * (model.qk_nope_head_dim + model.v_head_dim)
    )
    if not model.q_lora_rank:
        return [column(sizes, "q", h, heads * model.qk_dim), kv_down, kv_up]
    q_down = replicated(sizes, "q_down", h, model.q_lora_rank)
    q_up = column(sizes, "q_up", model.q_lora_rank, heads * model.qk_dim)
    return [q_down, q_up, kv_down, kv_up]


def core(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    """Return scores, softmax and weighted values."""
    if sizes.attention == "unfused":
        if sizes.plan.cp > 1:
            raise PlanError(
                f"cp={sizes.plan.cp} needs a flash attention kernel; attention={sizes.attention!r} keeps scores: use "
                f"cp=1, or attention='te'"
            )
        return _unfused(sizes, heads)
    if sizes.plan.cp == 1:
        return _flash(sizes, heads, kv_heads, window)
    return _SPANS[sizes.plan.context](sizes, heads, kv_heads, window)


def _kernel(
    sizes: Sizes, heads: int, kv_heads: int, window: int, direction: str, *,
    seq_q: int = 0, seq_kv: int = 0, scores: float = 0.0,
) -> Attention:  # fmt: skip
    model, plan = sizes.model, sizes.plan
    return Attention(
        batch=plan.microbatch,
        heads=heads,
        kv_heads=kv_heads,
        seq_q=seq_q or plan.seq_len,
        seq_kv=seq_kv or plan.seq_len,
        head_dim=model.qk_dim,
        v_head_dim=model.v_dim,
        direction=direction,
        dtype="fp16" if plan.dtype == "fp16" else "bf16",
        implementation=sizes.attention,
        window=window,
        scores=scores,
    )


def _qkv_bytes(sizes: Sizes, heads: int, kv_heads: int) -> float:
    model = sizes.model
    width = heads * model.qk_dim + kv_heads * (model.qk_dim + model.v_dim)
    return sizes.tokens * width * sizes.value


def _kv_bytes(sizes: Sizes, kv_heads: int) -> float:
    model = sizes.model
    return sizes.tokens * kv_heads * (model.qk_dim + model.v_dim) * sizes.value


def _statistics_bytes(sizes: Sizes, heads: int) -> float:
    """Log-sum-exp a query and head, in fp32."""
    return 4.0 * sizes.tokens * heads


def _flash(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    forward = _kernel(sizes, heads, kv_heads, window, "fwd")
    backward = _kernel(sizes, heads, kv_heads, window, "bwd")
    return Part(
        name="attention",
        forward=lanes(Compute("attention", forward, "F")),
        backward=lanes(Compute("attention.bwd", backward, "B")),
        saved=_qkv_bytes(sizes, heads, kv_heads) + _statistics_bytes(sizes, heads),
        recomputed=lanes(Compute("attention.again", forward, "R")),
    )


def _unfused(sizes: Sizes, heads: int) -> Part:
    """Batched products with a fused scale-mask-softmax between, and dropout: the whole score matrix in memory."""
    model, plan, value = sizes.model, sizes.plan, sizes.value
    s, batch = plan.seq_len, plan.microbatch * heads
    matrix = batch * float(s) * s * value
    mask = matrix / value if plan.dropout else 0.0
    dtype = "fp16" if plan.dtype == "fp16" else "bf16"

    def product(name: str, m: int, n: int, k: int, phase: str) -> Compute:
        return Compute(name, Gemm(m, n, k, batch=batch, dtype=dtype), phase)

    def softmax(phase: str) -> list[Op]:
        ops: list[Op] = [sizes.elementwise("softmax", "softmax", 2 * matrix, phase, passes=3.0)]
        if plan.dropout:
            ops.append(sizes.elementwise("attn_dropout", "dropout", 2 * matrix + mask, phase))
        return ops

    d, dv = model.qk_dim, model.v_dim
    backward: list[Op] = [
        Compute(
            "context.transpose.bwd", Memory("copy", 2.0 * sizes.tokens * heads * dv * value), "B"
        ),
        product("scores_values.dgrad", s, s, dv, "B"),
        product("values.grad", s, dv, s, "B"),
    ]
    if plan.dropout:
        backward.append(sizes.elementwise("attn_dropout.bwd", "dropout", 2 * matrix + mask, "B"))
    backward += [
        sizes.elementwise("softmax.bwd", "softmax", 3 * matrix, "B", passes=2.0),
        product("queries.grad", s, d, s, "B"),
        product("keys.grad", s, d, s, "B"),
    ]
    score_bytes = matrix + (mask + matrix if plan.dropout else 0.0)
    context = 2.0 * sizes.tokens * heads * dv * value
    return Part(
        name="attention",
        forward=lanes(
            product("scores", s, s, d, "F"),
            *softmax("F"),
            product("scores_values", s, dv, s, "F"),
            Compute("context.transpose", Memory("copy", context), "F"),
        ),
        backward=lanes(*backward),
        saved=_qkv_bytes(sizes, heads, heads) + score_bytes,
        recomputed=lanes(
            product("scores", s, s, d, "R"), *softmax("R"), product("scores_values", s, dv, s, "R")
        ),
        recomputed_bytes=score_bytes,
    )


def _gather_span(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    plan = sizes.plan
    local, whole = plan.seq_len // plan.cp, plan.seq_len
    scores = _kernel(sizes, heads, kv_heads, window, "fwd").num_scores / plan.cp
    nbytes = _kv_bytes(sizes, kv_heads) * plan.cp
    shape = {"seq_q": local, "seq_kv": whole}
    forward = _kernel(sizes, heads, kv_heads, window, "fwd", scores=scores, **shape)
    backward = _kernel(sizes, heads, kv_heads, window, "bwd", scores=scores, **shape)
    return Part(
        name="attention",
        forward=lanes(
            Collective("kv.all_gather", "all_gather", "cp", nbytes, "F"),
            Compute("attention", forward, "F"),
        ),
        backward=lanes(
            Collective("kv.all_gather", "all_gather", "cp", nbytes, "B"),
            Compute("attention.bwd", backward, "B"),
            Collective("kv.reduce_scatter", "reduce_scatter", "cp", nbytes, "B"),
        ),
        saved=_qkv_bytes(sizes, heads, kv_heads) + _statistics_bytes(sizes, heads),
        recomputed=lanes(Compute("attention.again", forward, "R")),
    )


def _ring_span(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    plan = sizes.plan
    local = plan.seq_len // plan.cp
    scores = _kernel(sizes, heads, kv_heads, window, "fwd").num_scores / plan.cp**2
    nbytes = _kv_bytes(sizes, kv_heads)

    def rounds(name: str, direction: str, phase: str, tensors: float) -> Lanes:
        kernel = _kernel(
            sizes, heads, kv_heads, window, direction, seq_q=local, seq_kv=local, scores=scores
        )
        compute: list[Op] = []
        shifts: list[Op] = []
        for i in range(plan.cp):
            last = i == plan.cp - 1
            starts = () if last else ("cp.go",)
            compute.append(Compute(f"{name}.{i}", kernel, phase, starts=starts))
            if not last:
                compute.append(Wait(("cp.came",)))
                shifts.append(
                    Collective(
                        f"{name}.shift.{i}", "send_recv", "cp", nbytes * tensors, phase,
                        waits=("cp.go",), signals=("cp.came",),
                    )
                )  # fmt: skip
        return lanes(*compute, cp=shifts)

    return Part(
        name="attention",
        forward=rounds("attention", "fwd", "F", 1.0),
        backward=rounds("attention.bwd", "bwd", "B", 2.0),
        saved=_qkv_bytes(sizes, heads, kv_heads) + _statistics_bytes(sizes, heads),
        recomputed=rounds("attention.again", "fwd", "R", 1.0),
    )


def _ulysses_span(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    plan, model = sizes.plan, sizes.model
    if heads % plan.cp:
        raise PlanError(
            f"context='ulysses' with cp={plan.cp}: cp must divide the heads of a rank, num_heads / tp = {heads}; lower "
            f"cp or tp, or use context='ring'"
        )
    inside = _qkv_bytes(sizes, heads, kv_heads)
    outside = sizes.tokens * heads * model.v_dim * sizes.value
    spread = heads // plan.cp, max(kv_heads // plan.cp, 1)

    def swapped(name: str, direction: str, phase: str, first: float, second: float) -> Lanes:
        kernel = _kernel(sizes, *spread, window, direction)
        return lanes(
            Collective(f"{name}.all_to_all.in", "all_to_all", "cp", first, phase),
            Compute(name, kernel, phase),
            Collective(f"{name}.all_to_all.out", "all_to_all", "cp", second, phase),
        )

    return Part(
        name="attention",
        forward=swapped("attention", "fwd", "F", inside, outside),
        backward=swapped("attention.bwd", "bwd", "B", outside, inside),
        saved=inside + _statistics_bytes(sizes, heads),
        recomputed=swapped("attention.again", "fwd", "R", inside, outside),
    )


_SPANS: dict[str, Callable[[Sizes, int, int, int], Part]] = {
    "all_gather": _gather_span,
    "ring": _ring_span,
    "ulysses": _ulysses_span,
}
