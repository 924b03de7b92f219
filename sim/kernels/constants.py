"""The measured constants of a device, read by name from its calibration.

Keys of `Device.calibration` are dotted: ``gemm.<dtype>.<constant>``, ``gemm.<constant>``,
``attention.<implementation>.<direction>.<constant>``, ``memory.<constant>``. A dtype that was never
measured on a device uses the constants of its class (`CLASSES`): the share of its own peak is what
carries over.
"""

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
    **{name: (name,) for name in ("bf16", "fp16", "fp8", "int8")},
    "fp4": ("fp4", "nvfp4"),
    "nvfp4": ("nvfp4", "fp4"),
    "tf32": ("tf32", "fp32"),
    "fp32": ("fp32", "bf16"),
    "fp64": ("fp64",),
}
"""Whose data-sheet peak a dtype runs at: its own; fp32 on TPUs, whose products take bf16 passes, that of bf16."""


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


def constant(
    device: Device, prefixes: tuple[str, ...], name: str, default: float | None = None
) -> float:
    """Return the first of ``prefix.name`` the calibration has, else the default."""
    for prefix in prefixes:
        value = device.calibration.get(f"{prefix}.{name}")
        if value is not None:
            return value
    if default is not None:
        return default
    raise InputError(
        f"device {device.name} has no constant {prefixes[0]}.{name}; fit it or inherit it"
    )
