"""Matrix products: tiles and waves on compute units, memory traffic, start latency.

A library cuts the output into tiles, gives each compute unit one tile at a time, and picks the tile shape (and, when
there are too few tiles, a split of the contracted dimension) that ends first. The same search is done here, with the
constants of `sim.kernels.constants.GemmConstants`.
"""

from collections.abc import Sequence
from math import ceil

from sim.device import Device
from sim.kernels.constants import GemmConstants, gemm_constants
from sim.kernels.shapes import DTYPE_BYTES, Gemm, GroupedGemm

TILES: dict[str, tuple[tuple[int, int], ...]] = {
    "gpu": ((256, 128), (128, 256), (128, 128), (64, 256), (128, 64), (64, 128), (64, 64)),
    "tpu": ((512, 512), (256, 256), (128, 128)),
    "npu": ((256, 128), (128, 256), (128, 128)),
    "asic": ((256, 256), (128, 128)),
}
"""Output tiles a library chooses from, by kind of device."""
SPLITS = (2, 3, 4, 6, 8, 16)
PARTIAL_BYTES = 8.0
"""Bytes a split partial result moves: written once and read once in fp32."""


def _compute(
    rows: float, columns: float, depth: float, count: float, device: Device, c: GemmConstants
) -> float:
    """Return the seconds of the best tiling of ``count`` products, memory traffic aside."""
    best = float("inf")
    units = device.compute_units
    unit_rate = c.rate / units
    for tile_m, tile_n in TILES[device.kind]:
        tiles = ceil(rows / tile_m) * ceil(columns / tile_n) * count
        area = tile_m * tile_n
        slope = 2.0 * area * (1.0 + c.edge * (tile_m + tile_n) / area) / unit_rate
        seconds = ceil(tiles / units) * slope * (depth + c.fill)
        if seconds < best:
            best = seconds
        if tiles < units:
            for split in SPLITS:
                if tiles * split > 2 * units or depth / split < c.fill:
                    break
                waves = ceil(tiles * split / units)
                partial = split * rows * columns * count * PARTIAL_BYTES / c.bandwidth
                seconds = waves * slope * (depth / split + c.fill) + partial
                if seconds < best:
                    best = seconds
    return best


def _overlap(compute: float, memory: float, c: GemmConstants) -> float:
    """Return the seconds when compute and traffic overlap, all but a share of the shorter one."""
    return c.start + max(compute, memory) + c.exposed * min(compute, memory)


def gemm_time(kernel: Gemm, device: Device) -> float:
    """Return the seconds of a (batched) product, start included."""
    c = gemm_constants(device, kernel.dtype)
    compute = _compute(kernel.m, kernel.n, kernel.k, kernel.batch, device, c)
    return _overlap(compute, kernel.nbytes / c.bandwidth, c)


def grouped_gemm_time(kernel: GroupedGemm, device: Device) -> float:
    """Return the seconds of a grouped product; the weight gradient contracts over the rows."""
    c = gemm_constants(device, kernel.dtype)
    if kernel.wgrad:
        compute = _compute(kernel.k, kernel.n, kernel.m, kernel.groups, device, c)
        size = DTYPE_BYTES[kernel.dtype]
        traffic = kernel.groups * (
            kernel.m * (kernel.k + kernel.n) * size + 2 * kernel.k * kernel.n * kernel.out_bytes
        )
    else:
        compute = _compute(kernel.m, kernel.n, kernel.k, kernel.groups, device, c)
        traffic = kernel.nbytes
    return _overlap(compute, traffic / c.bandwidth, c)


__all__: Sequence[str] = ("gemm_time", "grouped_gemm_time")
