"""Norms, residual additions, activations, rotary: memory-bound parts, in passes over their tensors."""

from workloads.layers.part import Part, lanes
from workloads.layers.sizes import Sizes

EAGER_RMS_NORM = 6.0
"""Bytes an RMS norm written out in eager PyTorch moves (to fp32, square, mean, scale, back: some 34 a value) over
those of one kernel; a layer norm is one kernel in PyTorch."""
EAGER_KEPT = 3.0
"""What such a norm keeps (input in fp32, normalised value in the training precision) over its input."""
EAGER_GATED = 1.6
"""The same for SwiGLU as an activation and a product."""
EAGER_ROTARY = 4.0
"""The same for rotary embedding as products, a rotation and a sum."""
EAGER_DROPOUT_ADD = 2.0
"""The same for dropout and addition in two kernels."""


def norm(sizes: Sizes, name: str, *, branches: bool = True, feeds: bool = False) -> Part:
    """Return a norm: reads x, writes y; backward reads dy and x, writes dx, and adds the residual's gradient.

    Where that sum is not fused it is a kernel of its own; where no residual ``branches`` off before it there is none.
    What ``feeds`` a product that keeps it is made again in the backward where the software rematerialises.
    """
    nbytes = sizes.local_hidden_bytes
    remade = nbytes if feeds and sizes.rematerialises else 0.0
    width = sizes.model.hidden_size
    passes = EAGER_RMS_NORM if sizes.model.norm == "rms" else 1.0
    backward = [sizes.elementwise(f"{name}.bwd", "norm", 3 * nbytes + remade, "B", passes=passes)]
    if branches and sizes.software.fused_residual:
        backward = [sizes.elementwise(f"{name}.bwd", "norm", 4 * nbytes + remade, "B")]
    elif branches:
        backward.append(sizes.elementwise(f"{name}.sum", "add", 3 * nbytes, "B"))
    return Part(
        name=name,
        forward=lanes(sizes.elementwise(name, "norm", 2 * nbytes, "F", passes=passes)),
        backward=lanes(*backward),
        saved=nbytes if passes == 1.0 or sizes.software.fused_elementwise else nbytes * EAGER_KEPT,
        remade=remade,
        weights=float(width * (1 + int(sizes.model.norm_bias))) * float(sizes.model.norm_weight),
    )


def residual(sizes: Sizes, name: str) -> Part:
    """Return dropout (where the plan has it) and residual addition: reads both, writes the sum."""
    nbytes = sizes.local_hidden_bytes
    mask = nbytes / sizes.value if sizes.plan.dropout else 0.0
    passes = EAGER_DROPOUT_ADD if sizes.plan.dropout else 1.0
    backward = lanes()
    if sizes.plan.dropout:
        backward = lanes(sizes.elementwise(f"{name}.bwd", "dropout", 2 * nbytes + mask, "B"))
    return Part(
        name=name,
        forward=lanes(sizes.elementwise(name, "add", 3 * nbytes + mask, "F", passes=passes)),
        backward=backward,
        saved=mask,
    )


def activation(
    sizes: Sizes, name: str, width: int, tokens: float, *, gated: bool, feeds: bool = False
) -> Part:
    """Return the MLP's non-linearity on (tokens, width): reads its input (two halves, if gated), writes one.

    What ``feeds`` a product that keeps it is made again in the backward where the software rematerialises.
    """
    one = tokens * width * sizes.value
    remade = one if feeds and sizes.rematerialises else 0.0
    inputs = 2 * one if gated else one
    passes = EAGER_GATED if gated else 1.0
    return Part(
        name=name,
        forward=lanes(sizes.elementwise(name, "activation", inputs + one, "F", passes=passes)),
        backward=lanes(
            sizes.elementwise(
                f"{name}.bwd", "activation", 2 * inputs + one + remade, "B", passes=passes
            )
        ),
        remade=remade,
        saved=inputs + (one if gated and not sizes.software.fused_elementwise else 0.0),
    )


def rotary(sizes: Sizes, heads: int, kv_heads: int, dim: int) -> Part:
    """Return rotary embedding of queries and keys: read and write both."""
    nbytes = 2.0 * sizes.tokens * (heads + kv_heads) * dim * sizes.value
    return Part(
        name="rotary",
        forward=lanes(sizes.elementwise("rotary", "rotary", nbytes, "F", passes=EAGER_ROTARY)),
        backward=lanes(sizes.elementwise("rotary.bwd", "rotary", nbytes, "B", passes=EAGER_ROTARY)),
    )
