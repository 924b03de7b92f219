"""The measured constants of a device, read by name from its calibration.

Keys of `Device.calibration` are dotted: ``gemm.<dtype>.<constant>``, ``attention.<implementation>.<constant>``,
``memory.<constant>``. A dtype that was never measured on a device uses the constants of its class
(`CLASSES`): the share of its own peak is what carries over.
"""

from functools import lru_cache
from typing import NamedTuple

from sim.device import Device
from sim.errors import InputError, unknown

CLASSES: dict[str, tuple[str, ...]] = {
    "bf16": ("bf16", "fp16"),
    "fp16": ("fp16", "bf16"),
    "fp8": ("fp8", "bf16", "fp16"),
    "int8": ("int8", "fp8", "bf16", "fp16"),
    "fp4": ("fp4", "fp8", "bf16"),
    "nvfp4": ("nvfp4", "fp4", "fp8", "bf16"),
    "tf32": ("tf32", "bf16", "fp16"),
    "fp32": ("fp32", "tf32", "bf16", "fp16"),
    "fp64": ("fp64", "fp32", "bf16", "fp16"),
}
"""Whose constants a dtype uses, in order of preference."""

PEAKS: dict[str, tuple[str, ...]] = {
    "bf16": ("bf16", "fp16"),
    "fp16": ("fp16", "bf16"),
    "fp8": ("fp8", "bf16"),
    "int8": ("int8", "fp8", "bf16"),
    "fp4": ("fp4", "nvfp4", "fp8", "bf16"),
    "nvfp4": ("nvfp4", "fp4", "fp8", "bf16"),
    "tf32": ("tf32", "fp32"),
    "fp32": ("fp32",),
    "fp64": ("fp64",),
}
"""Whose data-sheet peak a dtype runs at where its own has no hardware."""


class GemmConstants(NamedTuple):
    """``rate`` sustained FLOP/s, ``start`` s, ``fill`` and ``edge`` in elements, ``bandwidth`` bytes/s.

    ``fill``: contracted elements' worth of time that each tile costs besides its own; ``edge``: how much a small
    tile costs more; ``exposed``: the share of the shorter of compute and traffic that does not overlap.
    """

    rate: float
    start: float
    fill: float
    edge: float
    bandwidth: float
    exposed: float


def peak(device: Device, dtype: str) -> float:
    """Return the dense data-sheet FLOP/s at which ``dtype`` runs on ``device``."""
    if dtype not in PEAKS:
        raise InputError(unknown("dtype", dtype, PEAKS))
    for name in PEAKS[dtype]:
        if name in device.peak:
            return device.peak[name]
    raise InputError(
        f"device {device.name} has no {dtype} peak; choose from {', '.join(sorted(device.peak))}"
    )


def constant(device: Device, prefixes: tuple[str, ...], name: str) -> float:
    """Return the first of ``prefix.name`` the calibration has."""
    for prefix in prefixes:
        value = device.calibration.get(f"{prefix}.{name}")
        if value is not None:
            return value
    raise InputError(
        f"device {device.name} has no constant {prefixes[0]}.{name}; fit it or inherit it"
    )


@lru_cache(maxsize=4096)
def gemm_constants(device: Device, dtype: str) -> GemmConstants:
    """Return the constants of matrix products of ``dtype`` on ``device``."""
    rate = peak(device, dtype)
    prefixes = tuple(f"gemm.{name}" for name in CLASSES[dtype])

    def get(name: str) -> float:
        return constant(device, prefixes, name)

    return GemmConstants(
        rate=rate * get("sustained"),
        start=get("start"),
        fill=get("fill"),
        edge=get("edge"),
        bandwidth=device.memory_bandwidth * constant(device, (*prefixes, "memory"), "bandwidth"),
        exposed=get("exposed"),
    )
