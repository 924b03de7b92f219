"""Mamba-2 mixers: projection, short convolution, state-space scan in chunks, gated norm, projection back.

The scan is the chunked algorithm of Dao and Gu 2024 (arXiv:2405.21060, section 6): inside a chunk of Q tokens
products like attention's, between chunks one state a head. As products: scores C B (Q, Q, state) a group,
their product with x (Q, head, Q), states B x (state, head, Q) and read-out C h (Q, head, state) a head. Over
cp, ranks swap tokens for heads.
"""

from sim.kernels.shapes import Gemm, Memory
from sim.program import Collective, Compute, Op
from workloads.layers.elementwise import norm, residual
from workloads.layers.linear import column, row
from workloads.layers.part import Part, lanes
from workloads.layers.sizes import Sizes
from workloads.model import LayerKind

CHUNK = 256
"""Tokens of a chunk (the default of the authors' kernels, state-spaces/mamba)."""
STATE_BYTES = 4.0
"""States between chunks are kept in fp32."""


def mamba_block(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return norm, projections, convolution, scan and residual of one layer."""
    model, tp = sizes.model, sizes.plan.tp
    inner = model.mamba_num_heads * model.mamba_head_dim // tp
    groups = max(model.mamba_num_groups // tp, 1)
    mixed = inner + 2 * groups * model.mamba_state_size
    width = inner + mixed + model.mamba_num_heads // tp
    return [
        norm(sizes, "mamba_norm"),
        column(sizes, "mamba_in", model.hidden_size, width),
        convolution(sizes, "mamba_conv", mixed, inner + model.mamba_num_heads // tp),
        _scan(sizes, inner, groups, mixed),
        gated_norm(sizes, "mamba_gate", inner),
        row(sizes, "mamba_out", inner, model.hidden_size),
        residual(sizes, "mamba_add"),
    ]


def convolution(sizes: Sizes, name: str, channels: int, beside: int) -> Part:
    """Return a causal convolution of a few taps and its activation; ``beside``: channels that pass by.

    With cp its input arrives by all-to-all, every rank then having all tokens of its heads.
    """
    cp = sizes.plan.cp
    nbytes = sizes.tokens * channels * sizes.value
    moved = sizes.tokens * (channels + beside) * sizes.value

    def swap(phase: str) -> tuple[Op, ...]:
        if cp == 1:
            return ()
        return (Collective(f"{name}.all_to_all", "all_to_all", "cp", moved, phase),)

    return Part(
        name=name,
        forward=lanes(
            *swap("F"), sizes.elementwise(name, "activation", 2 * nbytes, "F", passes=2.0)
        ),
        backward=lanes(
            sizes.elementwise(f"{name}.bwd", "activation", 4 * nbytes, "B", passes=2.0), *swap("B")
        ),
        saved=moved,
        weights=float(channels * (sizes.model.conv_size + 1)),
    )


def gated_norm(sizes: Sizes, name: str, width: int) -> Part:
    """Return the norm of the scan's output times its gate; with cp the output goes back by all-to-all first."""
    nbytes = sizes.tokens * width * sizes.value

    def swap(phase: str) -> tuple[Op, ...]:
        if sizes.plan.cp == 1:
            return ()
        return (Collective(f"{name}.all_to_all", "all_to_all", "cp", nbytes, phase),)

    return Part(
        name=name,
        forward=lanes(*swap("F"), sizes.elementwise(name, "norm", 3 * nbytes, "F", passes=2.0)),
        backward=lanes(
            sizes.elementwise(f"{name}.bwd", "norm", 5 * nbytes, "B", passes=2.0), *swap("B")
        ),
        saved=nbytes,
        weights=float(width),
    )


def _scan(sizes: Sizes, inner: int, groups: int, mixed: int) -> Part:
    model, cp = sizes.model, sizes.plan.cp
    n, p = model.mamba_state_size, model.mamba_head_dim
    tokens = sizes.tokens * cp
    q = min(CHUNK, sizes.plan.seq_len)
    chunks = tokens // q
    heads = inner // p // cp
    states = chunks * heads * n * p * STATE_BYTES

    def product(name: str, shape: tuple[int, int, int], batch: int, phase: str) -> Compute:
        return Compute(name, Gemm(*shape, batch=max(batch, 1), dtype=sizes.wide_dtype), phase)

    def forward(phase: str) -> list[Op]:
        return [
            product("scan.states", (n, p, q), heads * chunks, phase),
            Compute("scan.pass", Memory("scan", 2 * states), phase),
            product("scan.scores", (q, q, n), max(groups // cp, 1) * chunks, phase),
            product("scan.inside", (q, p, q // 2), heads * chunks, phase),
            product("scan.read", (q, p, n), heads * chunks, phase),
        ]

    backward: list[Op] = [
        *forward("B")[:2],  # states again
        product("scan.read.bwd", (q, n, p), 2 * heads * chunks, "B"),
        Compute("scan.pass.bwd", Memory("scan", 2 * states), "B"),
        product("scan.scores.bwd", (q, q, n), max(groups // cp, 1) * chunks, "B"),
        product("scan.inside.bwd", (q, p, q // 2), 2 * heads * chunks, "B"),
        product("scan.groups.bwd", (q, n, q // 2), 2 * max(groups // cp, 1) * chunks, "B"),
        product("scan.states.bwd", (q, p, n), 2 * heads * chunks, "B"),
    ]
    return Part(
        name="scan",
        forward=lanes(*forward("F")),
        backward=lanes(*backward),
        saved=sizes.tokens * mixed * sizes.value,
        weights=3.0 * (inner // p),
    )
