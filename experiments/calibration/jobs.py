"""What is fitted, on which rows, between which bounds: the whole calibration of kernels as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sim.units import TB, us


class Range(NamedTuple):
    """Bounds of a constant, and where its search starts."""

    low: float
    high: float
    start: float


RANGES: dict[str, Range] = {
    "gemm.sustained": Range(0.2, 0.95, 0.7),
    "gemm.start": Range(0.3 * us, 30 * us, 4 * us),
    "gemm.fill": Range(1.0, 3000.0, 100.0),
    "gemm.edge": Range(0.001, 300.0, 2.0),
    "gemm.cache": Range(0.5 * TB, 900 * TB, 30 * TB),
    "gemm.bandwidth": Range(0.3, 1.0, 0.85),
    "gemm.exposed": Range(0.001, 1.0, 0.2),
    "gemm.boost": Range(1.0, 1.6, 1.2),
    "gemm.settle": Range(100 * us, 900 * us, 300 * us),
    "gemm.grouped": Range(0.8, 2.5, 1.0),
    "gemm.group_start": Range(0.002 * us, 20 * us, 1 * us),
    "attention.sustained": Range(0.1, 1.0, 0.6),
    "attention.softmax": Range(0.1, 200.0, 25.0),
    "attention.fill": Range(1.0, 1000.0, 60.0),
    "attention.diagonal": Range(1.0, 1000.0, 60.0),
}
"""By family and constant; a constant keeps its range whatever dtype or kernel generation it is of."""


class Part(NamedTuple):
    """Rows that share constants: those whose kernel starts so and whose dtype (or pass) is one of these."""

    kernels: tuple[str, ...]
    dtypes: tuple[str, ...]
    passes: tuple[str, ...] = ()
    free: tuple[str, ...] = ("sustained", "start", "fill", "edge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The constants of one device file: fitted on rows of ``measured`` devices, by ``parts``.

    ``shared``: constants all parts of a family have in common (full keys, as ``gemm.cache``).
    """

    device: str
    measured: tuple[str, ...]
    parts: Mapping[str, Part]
    shared: tuple[str, ...] = ()
    starts: tuple[Mapping[str, float], ...] = field(default=({},))


SIXTEEN = ("bf16", "fp16")
SHARED = ("gemm.cache", "gemm.bandwidth", "gemm.exposed")
ATTENTION = ("sustained", "softmax", "fill", "diagonal")
CAUSAL = ("sustained", "softmax", "fill")
STARTS = tuple(
    {"gemm.sustained": share, "gemm.cache": rate * TB} for share in (0.65, 0.8) for rate in (15, 40)
)
PLATEAU: tuple[Mapping[str, float], ...] = (
    {},
    {"gemm.sustained": 0.83, "gemm.start": 3 * us, "gemm.fill": 300.0},
)
"""The usual start, and one at the share of peak the largest products of a table settle at."""
STEEP = tuple(
    {**start, "gemm.edge": 60.0, "gemm.fill": 250.0, "gemm.bandwidth": 0.9} for start in STARTS
)
"""Starts of devices on which small tiles are slow."""
DENSE = ("gemm",)
GROUPED = ("grouped",)
NARROW = ("fp8",)


def products(
    dtypes: tuple[str, ...], *, free: tuple[str, ...] = Part._field_defaults["free"]
) -> Part:
    """Return the part of dense products of these dtypes."""
    return Part(DENSE, dtypes, free=free)


def grouped(dtypes: tuple[str, ...]) -> Part:
    """Return the part of grouped products: a slow-down, and a start a group."""
    return Part(GROUPED, dtypes, free=("grouped", "group_start"))


def attention(name: str, passes: tuple[str, ...], free: tuple[str, ...] = ATTENTION) -> Part:
    """Return the part of a kernel generation, in 16 bits."""
    return Part((f"attention_{name}",), SIXTEEN, passes, free)


JOBS: tuple[Job, ...] = (
    Job(
        device="v100-32",
        measured=("v100-32",),
        parts={"gemm.fp16": products(("fp16",)), "gemm.fp32": products(("fp32",))},
        shared=SHARED,
        starts=STARTS,
    ),
    Job(
        device="a100-80-sxm",
        measured=("a100-80-sxm", "a100-40-sxm", "a800-80-sxm"),
        parts={
            "gemm.bf16": products(SIXTEEN),
            "attention.fa1": attention("fa1", ("fwd+bwd",)),
            "attention.fa2": attention("fa2", ("fwd+bwd",)),
        },
        shared=SHARED,
        starts=STARTS,
    ),
    Job(
        device="a100-pcie",
        measured=("a100-pcie",),
        parts={
            "gemm.bf16": products(SIXTEEN),
            "gemm.bf16#grouped": grouped(SIXTEEN),
            "attention.te.fwd": attention("te", ("fwd",), CAUSAL),
            "attention.te.bwd": attention("te", ("bwd",), CAUSAL),
        },
        shared=SHARED,
        starts=STARTS,
    ),
    Job(
        device="h100-sxm",
        measured=("h100-sxm", "h200-sxm", "h800-sxm", "gh200"),
        parts={
            "gemm.bf16": products(SIXTEEN),
            "gemm.fp8": products(NARROW),
            "gemm.fp8#grouped": grouped(NARROW),
            "gemm.tf32": products(("tf32",)),
            "attention.fa2.fwd": attention("fa2", ("fwd",)),
            "attention.fa2.bwd": attention("fa2", ("bwd", "fwd+bwd")),
            "attention.fa3.fwd": attention("fa3", ("fwd",)),
            "attention.fa3.bwd": attention("fa3", ("bwd",), CAUSAL),
            "attention.cudnn.fwd": attention("cudnn", ("fwd",)),
            "attention.cudnn.bwd": attention("cudnn", ("bwd",), CAUSAL),
            "attention.triton": attention("triton", ("fwd",)),
        },
        shared=(*SHARED, "gemm.boost", "gemm.settle"),
        starts=STARTS,
    ),
    Job(
        device="b200-sxm",
        measured=("b200-sxm", "b300-sxm"),
        parts={
            "gemm.bf16": products(SIXTEEN),
            "gemm.bf16#grouped": grouped(SIXTEEN),
            "gemm.fp8": products(NARROW),
            "gemm.tf32": products(("tf32",)),
            "attention.te.fwd": attention("te", ("fwd",), CAUSAL),
            "attention.te.bwd": attention("te", ("bwd",), CAUSAL),
        },
        shared=(*SHARED, "gemm.boost", "gemm.settle"),
        starts=STARTS,
    ),
    Job(
        device="gb200",
        measured=("gb200", "gb300"),
        parts={
            "gemm.fp4": products(("fp4", "nvfp4"), free=("sustained", "start")),
            "gemm.fp8": products(NARROW, free=("sustained", "start")),
        },
        shared=("gemm.boost",),
    ),
    Job(
        device="mi355x",
        measured=("mi355x", "mi350x"),
        parts={"gemm.bf16": products(SIXTEEN), "gemm.fp8": products(NARROW)},
        shared=SHARED,
        starts=STEEP,
    ),
    Job(
        device="mi300x",
        measured=("mi300x", "mi325x"),
        parts={"gemm.bf16": products(SIXTEEN, free=("sustained",))},
    ),
    Job(
        device="tpu-v6e",
        measured=("tpu-v6e",),
        parts={"gemm.bf16": products(("bf16",), free=("sustained",))},
    ),
    Job(
        device="tpu-7x-core",
        measured=("tpu-7x-core",),
        parts={"gemm.bf16": products(("bf16",), free=("sustained", "start", "fill"))},
        starts=PLATEAU,
    ),
    Job(
        device="gaudi3",
        measured=("gaudi2", "gaudi3"),
        parts={"gemm.bf16": products(("bf16", "fp8"), free=("sustained",))},
    ),
)
"""One job a device file, parents before those that inherit from them."""
