"""Norms, residual additions, activations, rotary: memory-bound parts, in passes over their tensors."""

from workloads.layers.part import Part, lanes
from workloads.layers.sizes import Sizes


def norm(sizes: Sizes, name: str) -> Part:
    """Return a norm: reads x, writes y; backward reads dy, x and the residual's gradient, writes dx."""
    nbytes = sizes.local_hidden_bytes
    width = sizes.model.hidden_size
    return Part(
        name=name,
        forward=lanes(sizes.elementwise(name, "norm", 2 * nbytes, "F", passes=2.0)),
        backward=lanes(sizes.elementwise(f"{name}.bwd", "norm", 4 * nbytes, "B", passes=2.0)),
        saved=nbytes,
        weights=float(width * (1 + int(sizes.model.norm_bias))) * float(sizes.model.norm_weight),
    )


def residual(sizes: Sizes, name: str) -> Part:
    """Return dropout (where the plan has it) and residual addition: reads both, writes the sum."""
    nbytes = sizes.local_hidden_bytes
    mask = nbytes / sizes.value if sizes.plan.dropout else 0.0
    backward = lanes()
    if sizes.plan.dropout:
        backward = lanes(sizes.elementwise(f"{name}.bwd", "dropout", 2 * nbytes + mask, "B"))
    return Part(
        name=name,
        forward=lanes(sizes.elementwise(name, "add", 3 * nbytes + mask, "F", passes=2.0)),
        backward=backward,
        saved=mask,
    )


def activation(sizes: Sizes, name: str, width: int, tokens: float, *, gated: bool) -> Part:
    """Return the MLP's non-linearity on (tokens, width): reads its input (two halves, if gated), writes one."""
    one = tokens * width * sizes.value
    inputs = 2 * one if gated else one
    return Part(
        name=name,
        forward=lanes(sizes.elementwise(name, "activation", inputs + one, "F", passes=2.0)),
        backward=lanes(
            sizes.elementwise(f"{name}.bwd", "activation", 2 * inputs + one, "B", passes=2.0)
        ),
        saved=inputs,
    )


def rotary(sizes: Sizes, heads: int, kv_heads: int, dim: int) -> Part:
    """Return rotary embedding of queries and keys: read and write both."""
    nbytes = 2.0 * sizes.tokens * (heads + kv_heads) * dim * sizes.value
    return Part(
        name="rotary",
        forward=lanes(sizes.elementwise("rotary", "rotary", nbytes, "F", passes=2.0)),
        backward=lanes(sizes.elementwise("rotary.bwd", "rotary", nbytes, "B", passes=2.0)),
    )
