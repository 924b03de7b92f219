"""Kernels bound by memory traffic: an achieved bandwidth that small kernels do not reach."""

from functools import lru_cache

from sim.device import Device
from sim.kernels.constants import constant
from sim.kernels.shapes import Memory


@lru_cache(maxsize=4096)
def _rates(device: Device, kind: str) -> tuple[float, float]:
    """Return (start seconds, achieved bytes/s) of memory kernels of ``kind``."""
    share = device.calibration.get(f"memory.{kind}")
    if share is None:
        share = constant(device, ("memory",), "bandwidth")
    return constant(device, ("memory",), "start"), share * device.memory_bandwidth


def memory_time(kernel: Memory, device: Device) -> float:
    """Return the seconds of a memory-bound kernel: start + bytes / achieved bandwidth."""
    start, bandwidth = _rates(device, kernel.kind)
    return start + kernel.nbytes / (bandwidth * kernel.speed)
