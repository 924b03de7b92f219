"""Kernels: what a device needs, in seconds, for one `Compute` op."""

from collections.abc import Callable
from typing import Any

from sim.device import Device
from sim.errors import InputError
from sim.kernels.attention import attention_time
from sim.kernels.constants import constant
from sim.kernels.gemm import gemm_time, grouped_gemm_time, steady
from sim.kernels.memory import memory_time
from sim.kernels.scan import chunked_time
from sim.kernels.shapes import Attention, Chunked, Gemm, GroupedGemm, Kernel, Memory

MODELS: dict[type, Callable[[Any, Device], float]] = {
    Attention: attention_time,
    Chunked: chunked_time,
    Gemm: gemm_time,
    GroupedGemm: grouped_gemm_time,
    Memory: memory_time,
}
"""The cost model of each kernel type."""


def kernel_time(kernel: Kernel, device: Device, launches: int = 1) -> float:
    """Return the seconds ``kernel`` takes alone on ``device``, its start on the device included.

    ``launches``: pieces it comes in, each with a start of its own (a grouped product's own constants have them). The
    host's launch is not included: that is the framework's.
    """
    model = MODELS.get(type(kernel))
    if model is None:
        known = ", ".join(sorted(kind.__name__ for kind in MODELS))
        raise InputError(f"no cost model for {type(kernel).__name__}; kernels are {known}")
    seconds = model(kernel, device)
    if launches > 1 and not isinstance(kernel, GroupedGemm):
        seconds += (launches - 1) * constant(device, ("memory",), "start")
    return seconds


__all__ = ["MODELS", "kernel_time", "steady"]
