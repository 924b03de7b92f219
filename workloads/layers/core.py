"""Core of attention on one rank: a fused kernel, or products and softmax that keep the scores."""

from sim.kernels.shapes import Attention, Gemm, Memory
from sim.program import Compute, Op
from workloads.documents import parse_documents
from workloads.layers.part import Part, lanes
from workloads.layers.sizes import Sizes


def kernel(
    sizes: Sizes, heads: int, kv_heads: int, window: int, direction: str, *,
    seq_q: int = 0, seq_kv: int = 0, scores: float = 0.0, diagonal: bool = True,
) -> Attention:  # fmt: skip
    """Return a fused kernel over whole sequences, or ``seq_q`` x ``seq_kv`` of them.

    ``scores`` a head and sequence (0: causal, within documents where the plan has them); ``diagonal``: whether some of
    its tiles are half masked.
    """
    model, plan = sizes.model, sizes.plan
    if plan.documents and not scores:
        scores = plan.seq_len * parse_documents(plan.documents).scores_per_token(window)
    return Attention(
        batch=plan.microbatch,
        heads=heads,
        kv_heads=kv_heads,
        seq_q=seq_q or plan.seq_len,
        seq_kv=seq_kv or plan.seq_len,
        head_dim=model.qk_dim,
        v_head_dim=model.v_dim,
        causal=diagonal,
        direction=direction,
        dtype="fp16" if plan.dtype == "fp16" else "bf16",
        implementation=sizes.attention,
        window=window,
        scores=scores,
    )


def qkv_bytes(sizes: Sizes, heads: int, kv_heads: int) -> float:
    """Bytes of a rank's queries, keys and values."""
    model = sizes.model
    width = heads * model.qk_dim + kv_heads * (model.qk_dim + model.v_dim)
    return sizes.tokens * width * sizes.value


def kv_bytes(sizes: Sizes, kv_heads: int) -> float:
    """Bytes of a rank's keys and values."""
    model = sizes.model
    return sizes.tokens * kv_heads * (model.qk_dim + model.v_dim) * sizes.value


def statistics_bytes(sizes: Sizes, heads: int) -> float:
    """Log-sum-exp a query and head, in fp32."""
    return 4.0 * sizes.tokens * heads


def flash(sizes: Sizes, heads: int, kv_heads: int, window: int) -> Part:
    """Return one fused kernel that keeps queries, keys, values and a statistic, and no score."""
    forward = kernel(sizes, heads, kv_heads, window, "fwd")
    backward = kernel(sizes, heads, kv_heads, window, "bwd")
    return Part(
        name="attention",
        forward=lanes(Compute("attention", forward, "F")),
        backward=lanes(Compute("attention.bwd", backward, "B")),
        saved=qkv_bytes(sizes, heads, kv_heads) + statistics_bytes(sizes, heads),
        recomputed=lanes(Compute("attention.again", forward, "R")),
    )


def unfused(sizes: Sizes, heads: int) -> Part:
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
        saved=qkv_bytes(sizes, heads, heads) + score_bytes,
        recomputed=lanes(
            product("scores", s, s, d, "R"), *softmax("R"), product("scores_values", s, dv, s, "R")
        ),
        recomputed_bytes=score_bytes,
    )
