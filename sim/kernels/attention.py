"""Attention: one fused kernel (flash), or the batched products and softmax of the unfused form.

A fused kernel does two (backward: five) products of every score and the softmax between them on
the slower units. With w the mean head size of the two sides, its time is

    FLOPs (1 + softmax / w) (keys + fill + diagonal if causal) / keys / rate

keys the mean keys a query sees; the products' 1 is more where they pad a head. FlashAttention 2 and 3 papers
(2307.08691, 2407.08608) explain the two overheads: exponentials against products, and tiles half masked or just
started.
"""

from functools import lru_cache
from math import ceil
from typing import NamedTuple

from sim.device import Device
from sim.kernels.constants import constant, peak
from sim.kernels.shapes import DTYPE_BYTES, Attention, Gemm, Kernel, Memory

TILE = 128
"""Queries (backward: keys) a compute unit holds at a time."""

GENERATIONS: dict[str, tuple[str, ...]] = {
    "fa1": ("fa1", "fa2"),
    "fa2": ("fa2", "te", "cudnn"),
    "fa3": ("fa3", "fa2", "te", "cudnn"),
    "fa4": ("fa4", "te", "cudnn", "fa3", "fa2"),
    "cudnn": ("cudnn", "te", "fa3", "fa2"),
    "te": ("te", "cudnn", "fa3", "fa2"),
    "triton": ("triton", "fa2", "te"),
    "xla": ("xla", "cudnn", "te"),
}
"""Whose constants an implementation uses, in order, on a device where it was never measured.

Frameworks fall back to the vendor's kernel where flash attention has none for a generation. Where
nothing was measured, the constants without a name (``attention.fwd``) are an assumption.
"""


class AttentionConstants(NamedTuple):
    """``rate`` FLOP/s, ``start`` s, ``softmax`` in head elements, ``fill``, ``diagonal`` in keys."""

    rate: float
    start: float
    softmax: float
    fill: float
    diagonal: float
    bandwidth: float


@lru_cache(maxsize=4096)
def attention_constants(
    device: Device, implementation: str, direction: str, dtype: str
) -> AttentionConstants:
    """Return the constants of a kernel generation on ``device``.

    They are measured in 16 bits; narrower numbers speed the products up and not the softmax.
    """
    keys = tuple(
        key
        for name in GENERATIONS.get(implementation, (implementation,))
        for key in (f"attention.{name}.{direction}", f"attention.{name}")
    )
    keys = (*keys, f"attention.{direction}", "attention")
    rate = peak(device, dtype)
    measured = peak(device, "bf16" if "bf16" in device.peak else "fp16")
    return AttentionConstants(
        rate=rate * constant(device, keys, "sustained"),
        start=constant(device, keys, "start"),
        softmax=constant(device, keys, "softmax") * rate / measured,
        fill=constant(device, keys, "fill"),
        diagonal=constant(device, keys, "diagonal"),
        bandwidth=device.memory_bandwidth * constant(device, ("memory",), "bandwidth"),
    )


ONE_WIDTH = ("fa1", "fa2", "xla")
"""Kernels whose values are as wide as queries and keys: narrower ones (MLA's) are padded (MaxText pads for splash)."""


def _worked(kernel: Attention, device: Device) -> float:
    """Return the width of heads the products run at over the mean of the two.

    Values are padded where the kernel has one width, and every side to whole matrix units (128 or 256 wide on TPUs).
    """
    value = kernel.v_head_dim or kernel.head_dim
    sides = (kernel.head_dim, kernel.head_dim if kernel.implementation in ONE_WIDTH else value)
    unit = device.calibration.get("tile.width", 1.0)
    return sum(ceil(side / unit) * unit for side in sides) / (kernel.head_dim + value)


def attention_time(kernel: Attention, device: Device) -> float:
    """Return the seconds of a fused attention kernel."""
    c = attention_constants(device, kernel.implementation, kernel.direction, kernel.dtype)
    if kernel.num_scores <= 0.0:
        return c.start
    width = (kernel.head_dim + (kernel.v_head_dim or kernel.head_dim)) / 2.0
    keys = kernel.num_scores / kernel.seq_q
    # Tiles are half masked at each edge: the diagonal, and where a window ends.
    windowed = 0 < kernel.window < kernel.seq_kv
    wasted = c.fill + c.diagonal * (kernel.causal + windowed)
    work = kernel.flops * (_worked(kernel, device) + c.softmax / width) * (1.0 + wasted / keys)
    length = kernel.seq_q if kernel.direction == "fwd" else kernel.seq_kv
    tiles = kernel.batch * kernel.heads * ceil(length / TILE)
    waves = ceil(tiles / device.compute_units) * device.compute_units / tiles
    return c.start + max(work * waves / c.rate, kernel.nbytes / c.bandwidth)


def unfused(kernel: Attention) -> tuple[Kernel, ...]:
    """Return the ops of attention that writes its scores out: products, mask, softmax, dropout.

    The whole score matrix is computed, masked or not. Mask, softmax and dropout each read and write it
    (the backward of softmax reads two); a dropout of zero is still a copy.
    """
    batch, v = kernel.batch * kernel.heads, kernel.v_head_dim or kernel.head_dim
    q, kv, dtype = kernel.seq_q, kernel.seq_kv, kernel.dtype
    scores = float(batch) * q * kv * DTYPE_BYTES[dtype]
    masks = (Memory("mask", 2.0 * scores, dtype=dtype),) if kernel.causal else ()
    dropout = Memory("dropout", 2.0 * scores, dtype=dtype)
    if kernel.direction == "fwd":
        return (
            Gemm(q, kv, kernel.head_dim, batch, dtype),
            *masks,
            Memory("softmax", 2.0 * scores, dtype=dtype),
            dropout,
            Gemm(q, v, kv, batch, dtype),
        )
    return (
        Gemm(q, kv, v, batch, dtype),
        Gemm(kv, v, q, batch, dtype),
        dropout,
        Memory("softmax", 3.0 * scores, dtype=dtype),
        *masks,
        Gemm(q, kernel.head_dim, kv, batch, dtype),
        Gemm(kv, kernel.head_dim, q, batch, dtype),
    )
