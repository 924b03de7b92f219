"""Fused attention: two (backward: five) chained products a tile, with the softmax between them."""

from functools import lru_cache
from math import ceil

from sim.device import Device
from sim.kernels.constants import constant, peak
from sim.kernels.shapes import DTYPE_BYTES, Attention, Gemm, Kernel, Memory

TILE = 128
"""Queries a tile."""


@lru_cache(maxsize=4096)
def _constants(
    device: Device, implementation: str, direction: str, dtype: str
) -> tuple[float, float, float, float]:
    """Return (FLOP/s at large head size, start, softmax cost in head elements, fill in keys)."""
    keys = (f"attention.{implementation}.{direction}", f"attention.{direction}")
    rate = peak(device, dtype) * constant(device, keys, "sustained")
    return (
        rate,
        constant(device, (*keys, "attention"), "start"),
        constant(device, keys, "softmax"),
        constant(device, keys, "fill"),
    )


def attention_time(kernel: Attention, device: Device) -> float:
    """Return the seconds of a fused attention kernel."""
    rate, start, softmax, fill = _constants(
        device, kernel.implementation, kernel.direction, kernel.dtype
    )
    width = kernel.head_dim + (kernel.v_head_dim or kernel.head_dim)
    tiles = kernel.batch * kernel.heads * ceil(kernel.seq_q / TILE)
    waves = ceil(tiles / device.compute_units) * device.compute_units / tiles
    products = kernel.flops * (1.0 + 2.0 * softmax / width)
    filling = kernel.flops / kernel.num_scores * kernel.seq_q * fill
    seconds = (products + filling) * min(waves, 2.0) / rate
    traffic = kernel.nbytes / (device.memory_bandwidth * constant(device, ("memory",), "bandwidth"))
    return start + max(seconds, traffic)


def unfused(kernel: Attention) -> tuple[Kernel, ...]:
    """Return the ops of attention that writes its scores out: batched products, mask, softmax, dropout.

    The whole score matrix is computed, masked or not.
    """
    batch, v = kernel.batch * kernel.heads, kernel.v_head_dim or kernel.head_dim
    q, kv, dtype = kernel.seq_q, kernel.seq_kv, kernel.dtype
    scores = float(batch) * q * kv * DTYPE_BYTES[dtype]
    masks = 2.0 if kernel.causal else 0.0
    if kernel.direction == "fwd":
        return (
            Gemm(q, kv, kernel.head_dim, batch, dtype),
            Memory("softmax", (2.0 + masks) * scores, dtype=dtype),
            Gemm(q, v, kv, batch, dtype),
        )
    return (
        Gemm(q, kv, v, batch, dtype),
        Gemm(kv, v, q, batch, dtype),
        Memory("softmax", (3.0 + masks) * scores, dtype=dtype),
        Gemm(q, kernel.head_dim, kv, batch, dtype),
        Gemm(kv, kernel.head_dim, q, batch, dtype),
    )
