"""Device files: all load, names are matched by their parts, sheets are sane."""

import itertools
from pathlib import Path

import pytest

import topologies.devices
from sim.errors import TopologyError
from sim.units import GB, TFLOP, GiB
from topologies.devices import DEVICES, canonical, device, parse

FOLDER = Path(topologies.devices.__file__).parent


def test_every_file_is_a_device_and_every_device_a_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(DEVICES)
    assert len(set(DEVICES)) == len(DEVICES)


@pytest.mark.parametrize("name", DEVICES)
class TestEachFile:
    def test_sheet_is_sane(self, name: str) -> None:
        d = device(name)
        assert d.name == name
        assert d.source
        assert d.kind in ("gpu", "tpu", "npu", "asic")
        assert 0.9 < d.memory_bytes / (round(d.memory_bytes / GiB) * GiB) < 1.1
        assert 8 * GiB < d.memory_bytes < 400 * GiB
        assert 0.4e12 < d.memory_bandwidth < 30e12
        assert d.compute_units >= 1
        assert all(10 * TFLOP <= value <= 40_000 * TFLOP for value in d.peak.values())

    def test_usable_memory_is_not_more_than_sold(self, name: str) -> None:
        """The same number may be GB on the sheet and GiB in the driver."""
        nominal = topologies.devices._table(name)["sheet"]["memory_GB"]
        assert nominal * 0.9 * GB <= device(name).memory_bytes <= nominal * GiB * 1.01

    def test_narrower_numbers_are_no_slower(self, name: str) -> None:
        peak = device(name).peak
        order = [dtype for dtype in ("fp32", "tf32", "bf16", "fp8", "fp4") if dtype in peak]
        assert all(peak[a] <= peak[b] for a, b in itertools.pairwise(order))

    def test_the_constants_of_a_parent_are_there(self, name: str) -> None:
        assert device(name).calibration.keys() >= {"tile.smallest", "gemm.cache", "memory.start"}

    def test_a_name_means_itself_in_any_case(self, name: str) -> None:
        assert canonical(name.upper()) == name
        assert parse(name) is not None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100-80GB", "h100-sxm"),
        ("H100-SXM", "h100-sxm"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("H100-80GB (p5)", "h100-sxm"),
        ("H100-95GB", "h100-96"),
        ("H100-96GB (HBM2e 2.4TB/s, 500W)", "h100-96"),
        ("H100 PCIe", "h100-pcie"),
        ("H200-141GB", "h200-sxm"),
        ("A100-80GB", "a100-80-sxm"),
        ("A100-40GB", "a100-40-sxm"),
        ("A100", "a100-80-sxm"),
        ("A100-SXM", "a100-80-sxm"),
        ("A100-PCIe", "a100-pcie"),
        ("B200-180GB", "b200-sxm"),
        ("B200 (power limited)", "b200-sxm"),
        ("B200/GB200-class", "b200-sxm"),
        ("GB200-186GB", "gb200"),
        ("B300", "b300-sxm"),
        ("GH200", "gh200"),
        ("V100-32GB", "v100-32"),
        ("V100-SXM", "v100-32"),
        ("MI250X GCD", "mi250x-gcd"),
        ("MI250X", "mi250x"),
        ("MI300X", "mi300x"),
        ("TPU v5p", "tpu-v5p"),
        ("TPUv5e", "tpu-v5e"),
        ("TPU v5 lite", "tpu-v5e"),
        ("TPU7x", "tpu-7x"),
        ("TPU7x-core", "tpu-7x-core"),
        ("Ascend 910B", "ascend-910b"),
        ("Ascend910C", "ascend-910c"),
        ("trn1", "trainium1-core"),
        ("Trainium2", "trainium2"),
        ("Gaudi 3", "gaudi3"),
    ],
)
def test_names_are_matched_by_parts(text: str, name: str) -> None:
    assert canonical(text) == name


@pytest.mark.parametrize("text", ["H100-64GB", "H1000", "A100 SXM 24GB", "abacus", "", "TPU v9"])
def test_an_unknown_device_is_refused(text: str) -> None:
    with pytest.raises(TopologyError, match=r"unknown device .* Known: a100-40-sxm"):
        device(text)


def test_near_names_come_first() -> None:
    with pytest.raises(TopologyError, match="did you mean 'h100-sxm'"):
        device("hh100-sxm")


def test_published_numbers() -> None:
    h100 = device("h100-sxm")
    assert h100.peak["bf16"] == 989e12
    assert h100.memory_bandwidth == 3350e9
    assert h100.compute_units == 132
    assert device("a100-40-sxm").memory_bandwidth == 1555e9
    assert device("mi300x").compute_units == 304
    core, chip = device("tpu-7x-core"), device("tpu-7x")
    assert 2 * core.peak["bf16"] == chip.peak["bf16"]
    gcd, package = device("mi250x-gcd"), device("mi250x")
    assert 2 * gcd.peak["bf16"] == package.peak["bf16"]


def test_one_object_a_device() -> None:
    assert device("H100-80GB") is device("h100-sxm")


def test_a_sister_inherits_and_overrides() -> None:
    a100, pcie = device("a100-80-sxm").calibration, device("a100-pcie").calibration
    assert device("a800-80-sxm").calibration == a100
    assert pcie["tile.smallest"] == a100["tile.smallest"]
    assert pcie["gemm.bf16.start"] != a100["gemm.bf16.start"]
