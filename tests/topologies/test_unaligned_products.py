"""Batched products of odd widths."""

import pytest

from sim.kernels import kernel_time
from sim.kernels.shapes import Gemm
from sim.units import TERA
from topologies.devices import device

A100 = device("a100-80-sxm")


@pytest.mark.parametrize(
    ("width", "ordinary"), [(224, False), (225, True), (108, True), (150, True), (96, False)]
)
def test_batched_products_of_unaligned_rows_leave_the_tensor_cores(
    width: int, ordinary: bool
) -> None:
    """A100: 19.5 TFLOP/s of fp32 on ordinary units (data sheet), far more on tensor cores."""
    kernel = Gemm(2048, 2048, width, batch=32)
    rate = kernel.flops / kernel_time(kernel, A100) / TERA
    assert (rate < 19.5) if ordinary else (rate > 78.0)


def test_a_single_product_of_odd_width_stays() -> None:
    assert Gemm(8192, 8192, 1001).flops / kernel_time(Gemm(8192, 8192, 1001), A100) / TERA > 100.0
