"""The numeric constants of software: at most ten, each with the runs it was fitted on.

Counts read in a framework's source (kernels a step of routing launches, passes of an unfused norm, operations a slice
of a gathered list) stand with the code that uses them. Constants of kernels and links are not among these either:
those are fitted on kernels and collectives, and stand in the files of devices. `experiments.calibration.software` fits
four of these anew and leaves each source out in turn.
"""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from experiments import simulation
from sim.kernels import scan
from topologies.devices import device
from workloads import software

CROSS_VALIDATION = Path(__file__).parent / "data" / "cross_validation.csv"
"""What `experiments.calibration.software --write` found."""


class LeftOut(NamedTuple):
    """A family of runs left out of a constant's fit: the value that all others choose, its own error there and now."""

    constant: str
    source: str
    chosen: float
    error: float
    shipped_error: float


def cross_validation() -> list[LeftOut]:
    """Return what leaving each source out said, as kept."""
    if not CROSS_VALIDATION.is_file():
        return []
    with CROSS_VALIDATION.open(newline="", encoding="utf-8") as file:
        return [
            LeftOut(r["constant"], r["source"], *(float(r[k]) for k in LeftOut._fields[2:]))
            for r in csv.DictReader(file)
        ]


@dataclass(frozen=True, slots=True)
class SoftwareConstant:
    """``value`` in ``unit``; ``fitted_on``: families of runs (`experiments.score_sets.family`), none: no run at all."""

    value: Callable[[], float]
    unit: str
    what: str
    fitted_on: tuple[str, ...] = ()


SOFTWARE_CONSTANTS: Mapping[str, SoftwareConstant] = {
    "HOST_OPERATION": SoftwareConstant(
        lambda: software.HOST_OPERATION, "s", "host time of a bare operation of PyTorch; a module's kernel takes two"
    ),
    "HOST_LAUNCH_COMPILED": SoftwareConstant(
        lambda: software.HOST_LAUNCH_COMPILED, "s", "host time of a kernel of compiled code or a CUDA graph"
    ),
    "HOST_LAUNCH_MODULES": SoftwareConstant(
        lambda: software.SOFTWARE["megatron-core"].launch, "s", "host time of a kernel of Megatron-Core's Python",
        ("modelzoo", "mbridge"),
    ),
    "HOST_GROUPED": SoftwareConstant(
        lambda: software.HOST_GROUPED, "s", "host time of a grouped product, beside its experts",
        ("modelzoo", "mbridge"),
    ),
    "HOST_EXPERT": SoftwareConstant(
        lambda: software.HOST_EXPERT, "s", "host time of each expert of it", ("modelzoo", "mbridge")
    ),
    "EAGER_BANDWIDTH": SoftwareConstant(
        lambda: software.EAGER_BANDWIDTH, "share", "bandwidth that unfused elementwise kernels reach", ("mpt",)
    ),
    "early.share": SoftwareConstant(
        lambda: device("h100-sxm").calibration["early.share"], "share",
        "rates of Hopper's libraries before mid 2023 over later ones", ("mpt", "jaxtb"),
    ),
    "JITTER": SoftwareConstant(
        lambda: simulation.JITTER, "share", "standard deviation of the speeds of devices of one kind", ("mpt", "dgxc")
    ),
    "FRAGMENTATION": SoftwareConstant(
        lambda: simulation.FRAGMENTATION, "share", "live bytes that an allocator holds on top",
        ("bloom-prequel", "titan", "mleng"),
    ),
    "VALUE_FLOPS": SoftwareConstant(
        lambda: scan.VALUE_FLOPS, "FLOP", "work of a Triton scan kernel on a value (Nemotron 3 Nano)",
        ("mbridge",),
    ),
}  # fmt: skip
