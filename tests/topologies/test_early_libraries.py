"""Kernels of libraries older than the tables."""

import pytest

from sim.kernels import kernel_time, steady
from sim.kernels.shapes import Gemm
from topologies.devices import device

SHAPE = Gemm(16384, 16384, 16384)


@pytest.mark.parametrize(("year", "slower"), [(2023.0, True), (2023.8, False), (0.0, False)])
def test_early_libraries_are_slower_where_the_device_says_so(year: float, slower: bool) -> None:
    h100 = device("h100-sxm")
    now, then = kernel_time(SHAPE, steady(h100)), kernel_time(SHAPE, steady(h100, year))
    assert then / now == pytest.approx(
        1.0 / h100.calibration["early.share"] if slower else 1.0, rel=0.01
    )


def test_other_devices_have_no_early_libraries() -> None:
    a100 = device("a100-80-sxm")
    assert kernel_time(SHAPE, steady(a100, 2021.0)) == kernel_time(SHAPE, steady(a100))
