"""Matrix products: tiles and waves on compute units, memory traffic, start latency.

A library cuts the output into tiles, gives each compute unit one tile at a time, and picks the
tile shape (and, when there are too few tiles, a split of the contracted dimension) that ends
first. The same search is done here. With c the constants of `GemmConstants`, a tiling costs

    waves x tile area x 2 (k + fill) (1 + edge x extra) / (rate / units)  +  operand bytes / cache

and the product ``start`` + the longer of that and of the traffic to device memory + ``exposed``
of the shorter. Waves: Nvidia, "Matrix multiplication background" (deep-learning performance guide).
"""

from dataclasses import replace
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from sim.device import Device
from sim.kernels.constants import CLASSES, constant, peak
from sim.kernels.shapes import DTYPE_BYTES, Gemm, GroupedGemm

SPLITS = (2, 3, 4, 6, 8, 16)
"""Ways to split the contracted dimension."""
PARTIAL_BYTES = 8.0
"""Bytes a partial result of a split moves: written once and read once in fp32."""
SIDES = (64, 128, 256, 512, 1024)
"""Sides of a tile; a library has no tile longer than `ASPECT` times its width."""
ASPECT = 4


class GemmConstants(NamedTuple):
    """The constants of matrix products of one dtype on one device.

    ``rate``: FLOP/s of all units with the largest tile, in a long run. ``start``: s. ``fill``:
    contracted elements' worth of time a tile costs besides its own. ``edge``: elements; what a
    tile of more edge per area than the largest costs more. ``cache``, ``bandwidth``: bytes/s of
    operands to the units and of device memory. ``exposed``: share of the shorter of compute and
    traffic that does not overlap. ``boost``: how much faster kernels much shorter than ``settle``
    seconds run in a benchmark, before the power limit acts. ``grouped``: slow-down of grouped
    products, and ``group_start`` s that each group adds; ``ragged``: rows a group works in vain, of tiles it shares
    with its neighbours. ``tiles``: output tiles to choose from.
    """

    rate: float
    start: float
    fill: float
    edge: float
    cache: float
    bandwidth: float
    exposed: float
    boost: float
    settle: float
    grouped: float
    group_start: float
    ragged: float
    tiles: tuple[tuple[int, int, float], ...]


def tile_set(smallest: float, largest: float) -> tuple[tuple[int, int, float], ...]:
    """Return (rows, columns, edge per area beyond the largest tile's) of tiles of these areas."""
    shapes = [
        (a, b)
        for a in SIDES
        for b in SIDES
        if smallest <= a * b <= largest and max(a, b) <= ASPECT * min(a, b)
    ]
    least = min((a + b) / (a * b) for a, b in shapes)
    return tuple((a, b, (a + b) / (a * b) - least) for a, b in shapes)


def _carried(device: Device, dtype: str, name: str, bytes_too: bool) -> float:
    """Return a constant counted in elements, carried over from the dtype it was measured on.

    What carries over is what it costs: ``fill`` the same seconds, ``edge`` the same bytes per second.
    """
    for origin in CLASSES[dtype]:
        value = device.calibration.get(f"gemm.{origin}.{name}")
        if value is not None and origin in device.peak:
            faster = peak(device, dtype) / peak(device, origin)
            wider = DTYPE_BYTES[dtype] / DTYPE_BYTES[origin] if bytes_too else 1.0
            return value * faster * wider
    return constant(device, (f"gemm.{dtype}", "gemm"), name)


@lru_cache(maxsize=4096)
def gemm_constants(device: Device, dtype: str) -> GemmConstants:
    """Return the constants of matrix products of ``dtype`` on ``device``."""
    rate = peak(device, dtype)
    own = (*(f"gemm.{name}" for name in CLASSES[dtype]), "gemm")
    return GemmConstants(
        rate=rate * constant(device, own, "sustained"),
        start=constant(device, own, "start"),
        fill=_carried(device, dtype, "fill", False),
        edge=_carried(device, dtype, "edge", True),
        cache=constant(device, own, "cache"),
        bandwidth=device.memory_bandwidth * constant(device, own, "bandwidth"),
        exposed=constant(device, own, "exposed"),
        boost=constant(device, own, "boost", 1.0),
        settle=constant(device, own, "settle", 1.0),
        grouped=constant(device, own, "grouped", 1.0),
        group_start=constant(device, own, "group_start", 0.0),
        ragged=constant(device, own, "ragged", 0.0),
        tiles=tile_set(
            constant(device, ("tile",), "smallest"), constant(device, ("tile",), "largest")
        ),
    )


def _tiling(
    rows: float,
    columns: float,
    depth: float,
    count: float,
    size: float,
    units: int,
    c: GemmConstants,
) -> float:
    """Return the seconds of the best tiling of ``count`` products, device memory aside."""
    best = float("inf")
    unit_rate = c.rate / units
    for tile_m, tile_n, extra in c.tiles:
        tiles = ceil(rows / tile_m) * ceil(columns / tile_n) * count
        slope = 2.0 * tile_m * tile_n * (1.0 + c.edge * extra) / unit_rate
        operands = tiles * (tile_m + tile_n) * depth * size / c.cache
        seconds = ceil(tiles / units) * slope * (depth + c.fill) + operands
        if seconds < best:
            best = seconds
        if tiles >= units:
            continue
        for split in SPLITS:
            if tiles * split > 2 * units or depth / split < c.fill:
                break
            waves = ceil(tiles * split / units)
            partial = split * rows * columns * count * PARTIAL_BYTES / c.bandwidth
            seconds = waves * slope * (depth / split + c.fill) + operands + partial
            if seconds < best:
                best = seconds
    return best


def _total(compute: float, traffic: float, c: GemmConstants) -> float:
    """Return the seconds of ``compute`` seconds of tiles and ``traffic`` bytes to memory."""
    if c.boost != 1.0:
        settled = compute * compute / (compute * compute + c.settle * c.settle)
        compute *= (1.0 + (c.boost - 1.0) * settled) / c.boost
    memory = traffic / c.bandwidth
    return c.start + max(compute, memory) + c.exposed * min(compute, memory)


def gemm_time(kernel: Gemm, device: Device) -> float:
    """Return the seconds of a (batched) product, start included."""
    c = gemm_constants(device, kernel.dtype)
    size, units = DTYPE_BYTES[kernel.dtype], device.compute_units
    compute = _tiling(kernel.m, kernel.n, kernel.k, kernel.batch, size, units, c)
    if kernel.batch > 1 and device.kind == "gpu" and _unaligned(kernel, size):
        compute = max(compute, kernel.flops / peak(device, "fp32"))
    return _total(compute, kernel.nbytes, c)


ALIGNMENT = 16.0
"""Bytes that rows of operands must be a multiple of for a batched product to run on tensor cores (NVIDIA's guide to
matrix multiplication asks for it); others are taken to run on the ordinary units, whose sums in fp32 go at the fp32
rate. In-sample: read off the BLOOM prequel runs with heads 108, 150 and 225 wide, 22 to 29 % slower than others."""


def _unaligned(kernel: Gemm, size: float) -> bool:
    return size >= 2.0 and any(side * size % ALIGNMENT for side in (kernel.n, kernel.k))


def grouped_gemm_time(kernel: GroupedGemm, device: Device) -> float:
    """Return the seconds of a grouped product; the weight gradient contracts over the rows.

    All groups share the units, so unequal groups cost what their mean does. A kernel that walks one list of all rows
    (megablox) does a tile that two groups share once for each: a tile more a group but one.
    """
    c = gemm_constants(device, kernel.dtype)
    size, units = DTYPE_BYTES[kernel.dtype], device.compute_units
    m, n, k, groups = kernel.m, kernel.n, kernel.k, kernel.groups
    walked = m + c.ragged * (groups - 1) / groups
    if kernel.wgrad:
        compute = _tiling(k, n, walked, groups, size, units, c)
        traffic = groups * (m * (k + n) * size + 2.0 * k * n * kernel.out_bytes)
    else:
        compute = _tiling(walked, n, k, groups, size, units, c)
        traffic = kernel.nbytes
    return _total(c.grouped * compute, traffic, c) + groups * c.group_start


@lru_cache(maxsize=256)
def steady(device: Device, libraries: float = 0.0) -> Device:
    """Return ``device`` as a long run finds it: at the clock its power limit leaves, no boost; with its ``libraries``.

    The tables of measured kernels are short benchmarks; a training step lasts seconds. A sister of the measured device
    with another power limit (``gemm.power``: the W its constants were measured at) settles at another clock. Libraries
    of a year before ``early.until`` reach ``early.share`` of the tables' rates (products, attention); 0: as measured.
    """
    boost = device.calibration.get("gemm.boost", 1.0)
    constants = {k: v for k, v in device.calibration.items() if not k.endswith(".boost")}
    for key in constants:
        if key.startswith(("gemm.", "attention.")) and key.endswith(".sustained"):
            measured = key.replace(".sustained", ".power")
            watts = constants.get(measured, constants.get("gemm.power", 0.0))
            constants[key] *= min(_clock(device.power or 0.0, watts), boost)
            if 0.0 < libraries < constants.get("early.until", 0.0):
                constants[key] *= constants["early.share"]
    return replace(device, calibration=constants)


IDLE_SHARE = 0.3
"""Share of a GPU's power limit that does not depend on its clock (leakage, memory, links); an assumption."""


def _clock(power: float, measured: float) -> float:
    """Clock at a power limit over that at the measured one: dynamic power goes with the cube of the clock."""
    if not power or not measured:
        return 1.0
    return float(((power - IDLE_SHARE * measured) / ((1.0 - IDLE_SHARE) * measured)) ** (1.0 / 3.0))
