"""Descriptions add up; drawings show every device they promise."""

from pathlib import Path

import pytest
from matplotlib.collections import PathCollection

from experiments.topology_command import describe, draw
from sim.units import GB
from topologies import cluster


def test_description() -> None:
    told = describe(cluster("h100-fat-tree", 512))
    assert (told["num_devices"], told["num_hosts"], told["device"]) == (512, 64, "h100-sxm")
    assert told["vertices"] == {"nvswitch": 256, "leaf": 16, "spine": 8}
    kinds = {row["kind"]: row for row in told["links"]}
    assert kinds["nvlink4"]["cables"] == 2 * 512 * 18
    assert kinds["nvlink4"]["cable_bandwidth_Bps"] == pytest.approx(25 * GB)


@pytest.mark.parametrize(
    ("name", "size", "drawn"),
    [
        ("h100-host", 8, 8),
        ("h100-fat-tree", 4096, 32),
        ("gb200-nvl72", 72, 72),
        ("mi300x-fat-tree", 16, 16),
        ("tpu-v4", 4096, 64),
        ("tpu-v5e", 256, 256),
        ("ub-mesh", 64, 64),
        ("cloudmatrix-384", 384, 32),
        ("two-datacenters", 64, 64),
    ],
)
def test_drawing(tmp_path: Path, name: str, size: int, drawn: int) -> None:
    figure = draw(cluster(name, size), tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 10_000
    (devices,) = [c for c in figure.axes[0].collections if isinstance(c, PathCollection)]
    assert len(devices.get_offsets()) == drawn
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert any("GB/s" in text.get_text() for text in legend.get_texts())
