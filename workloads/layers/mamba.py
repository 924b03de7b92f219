"""Mamba-2 mixers: projection, short convolution, state-space scan in chunks, gated norm, projection back.

Between the projections one function does everything, and runs again in its backward rather than keep what it made
(``mamba_split_conv1d_scan_combined`` of state-spaces/mamba 2.3; Megatron-Core's MambaMixer calls it). Its scan is
`workloads.layers.scan`. Over cp, ranks swap tokens for heads.
"""

from sim.kernels.shapes import Memory
from sim.program import Collective, Compute, Op
from workloads.layers.elementwise import norm, residual
from workloads.layers.linear import column, row
from workloads.layers.part import Part, lanes
from workloads.layers.precision import kept
from workloads.layers.scan import Scan, scan_backward, scan_forward
from workloads.layers.sizes import Sizes
from workloads.model import LayerKind


def mamba_block(sizes: Sizes, kind: LayerKind) -> list[Part]:
    """Return norm, projections, convolution, scan and residual of one layer."""
    model, tp = sizes.model, sizes.plan.tp
    heads = model.mamba_num_heads // tp
    inner = heads * model.mamba_head_dim
    groups = max(model.mamba_num_groups // tp, 1)
    mixed = inner + 2 * groups * model.mamba_state_size
    width = inner + mixed + heads
    return [
        norm(sizes, "mamba_norm"),
        column(sizes, "mamba_in", model.hidden_size, width),
        convolution(sizes, "mamba_conv", mixed, inner + heads),
        _scan(sizes, heads, groups, width),
        gated_norm(sizes, "mamba_gate", inner, gated=False),
        row(kept(sizes, "mamba_out"), "mamba_out", inner, model.hidden_size),
        residual(sizes, "mamba_add"),
    ]


def convolution(sizes: Sizes, name: str, channels: int, beside: int) -> Part:
    """Return a causal convolution of a few taps and its activation; ``beside``: channels that pass by.

    One kernel each way (Dao-AILab/causal-conv1d); it runs again before its backward, which reads input and gradient
    and writes one. With cp its input arrives by all-to-all, every rank then having all tokens of its heads.
    """
    cp = sizes.plan.cp
    nbytes = sizes.tokens * channels * sizes.value
    moved = sizes.tokens * (channels + beside) * sizes.value

    def swap(phase: str) -> tuple[Op, ...]:
        if cp == 1:
            return ()
        return (Collective(f"{name}.all_to_all", "all_to_all", "cp", moved, phase),)

    def kernel(label: str, passes: float, phase: str) -> Compute:
        return Compute(label, Memory("convolution", passes * nbytes), phase)

    return Part(
        name=name,
        forward=lanes(*swap("F"), kernel(name, 2.0, "F")),
        backward=lanes(
            kernel(f"{name}.again", 2.0, "B"), kernel(f"{name}.bwd", 3.0, "B"), *swap("B")
        ),
        saved=moved,
        weights=float(channels * (sizes.model.conv_size + 1)),
    )


def gated_norm(sizes: Sizes, name: str, width: int, *, gated: bool = True) -> Part:
    """Return the norm of the scan's output, times its gate unless the scan did that; one kernel each way.

    With cp the output goes back by all-to-all first.
    """
    nbytes = sizes.tokens * width * sizes.value
    inputs = 2 if gated else 1

    def swap(phase: str) -> tuple[Op, ...]:
        if sizes.plan.cp == 1:
            return ()
        return (Collective(f"{name}.all_to_all", "all_to_all", "cp", nbytes, phase),)

    def kernel(label: str, passes: int, phase: str) -> Compute:
        return Compute(label, Memory("norm", passes * nbytes), phase)

    return Part(
        name=name,
        forward=lanes(*swap("F"), kernel(name, inputs + 1, "F")),
        backward=lanes(kernel(f"{name}.bwd", 2 * inputs + 1, "B"), *swap("B")),
        saved=nbytes,
        weights=float(width),
    )


def _scan(sizes: Sizes, heads: int, groups: int, width: int) -> Part:
    """Return the scan; with several sequences its input and output swap tokens and sequences, a copy each."""
    model, plan = sizes.model, sizes.plan
    scan = Scan(
        tokens=sizes.tokens * plan.cp,
        heads=max(heads // plan.cp, 1),
        groups=max(groups // plan.cp, 1),
        head=model.mamba_head_dim,
        state=model.mamba_state_size,
        length=plan.seq_len,
        value=sizes.value,
        dtype=sizes.wide_dtype,
    )
    inner = heads * model.mamba_head_dim

    def copies(phase: str) -> tuple[Op, ...]:
        if plan.microbatch == 1 or not sizes.software.sequence_first:
            return ()
        nbytes = 2 * sizes.tokens * sizes.value
        return tuple(
            Compute(f"scan.{what}", Memory("copy", nbytes * values), phase)
            for what, values in (("in", width), ("out", inner))
        )

    return Part(
        name="scan",
        forward=lanes(*copies("F"), *scan_forward(scan)),
        backward=lanes(*scan_backward(scan), *copies("B")),
        saved=sizes.tokens * inner * sizes.value,
        weights=3.0 * heads,
    )
