"""Linear attention by the gated delta rule: projections, short convolution, chunked rule, gated norm, projection back.

A head keeps a (key, value) state that every token reads, corrects, writes and queries: four products of
(chunk, value, key) a chunk of tokens, and the triangular system inside it (Yang et al. 2024,
arXiv:2412.06464, section 3.3).
"""

from sim.kernels.shapes import Gemm, Memory
from sim.program import Compute, Op
from workloads.layers.elementwise import norm, residual
from workloads.layers.linear import column, row
from workloads.layers.mamba import convolution, gated_norm
from workloads.layers.part import Part, lanes
from workloads.layers.sizes import Sizes
from workloads.model import LayerKind

CHUNK = 64
"""Tokens of a chunk (the default of fla-org/flash-linear-attention)."""
STATE_BYTES = 4.0
"""States between chunks are kept in fp32."""


def linear_block(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return norm, projections, convolution, rule and residual of one layer."""
    model, tp = sizes.model, sizes.plan.tp
    keys = model.linear_num_key_heads * model.linear_key_head_dim // tp
    values = model.linear_num_value_heads * model.linear_value_head_dim // tp
    rates = 2 * model.linear_num_value_heads // tp
    mixed = 2 * keys + values
    return [
        norm(sizes, "linear_norm"),
        column(sizes, "linear_in", model.hidden_size, mixed + values + rates),
        convolution(sizes, "linear_conv", mixed, values + rates),
        _rule(sizes, mixed),
        gated_norm(sizes, "linear_gate", values),
        row(sizes, "linear_out", values, model.hidden_size),
        residual(sizes, "linear_add"),
    ]


def _rule(sizes: Sizes, mixed: int) -> Part:
    model, plan = sizes.model, sizes.plan
    heads = max(model.linear_num_value_heads // plan.tp // plan.cp, 1)
    key, value = model.linear_key_head_dim, model.linear_value_head_dim
    q = min(CHUNK, plan.seq_len)
    chunks = sizes.tokens * plan.cp // q
    states = chunks * heads * key * value * STATE_BYTES

    def product(name: str, shape: tuple[int, int, int], count: int, phase: str) -> Compute:
        kernel = Gemm(*shape, batch=count * heads * chunks, dtype=sizes.wide_dtype)
        return Compute(name, kernel, phase)

    def rule(phase: str, count: int, mark: str) -> list[Op]:
        return [
            product(f"delta.inside{mark}", (q, q, key), 3 * count, phase),
            product(f"delta.states{mark}", (q, value, key), 4 * count, phase),
            Compute(f"delta.pass{mark}", Memory("scan", 2 * states), phase),
        ]

    return Part(
        name="delta_rule",
        forward=lanes(*rule("F", 1, "")),
        backward=lanes(*rule("B", 2, ".bwd")),
        saved=sizes.tokens * mixed * sizes.value,
        weights=2.0 * model.linear_num_value_heads / plan.tp,
    )
