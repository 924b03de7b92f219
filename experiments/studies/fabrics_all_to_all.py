"""How fast does a torus, a fat tree and an all-optical machine all-to-all, from 8 to 4,096 devices?

Expected: on a torus bandwidth a device falls as the longest axis grows (its bisection grows slower than its devices:
V a / (8 W) on a ring of a, the TPU book), on a non-blocking switch it does not; as built a fat tree falls from NVLink to
the NICs at the host's edge (CS336 lecture 8: tori for predictable traffic, switches for routed tokens).
"""

from typing import TYPE_CHECKING

from experiments.fabric import FABRICS, busbw_row
from experiments.study import write
from experiments.study_figure import figure, legend, line, powers
from sim.units import GiB

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BYTES = 16 * GiB
DEVICES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
QUICK = (8, 64, 512)
TORUS_SLOPE = -1.0 / 3.0
"""Of a cube: the longest axis grows as the cube root of the devices."""


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Price an all-to-all of 16 GiB a device on every fabric, as built and at equal speed."""
    import pandas as pd

    return pd.DataFrame(
        [
            busbw_row(family, "all_to_all", devices, BYTES, equal=equal)
            for equal in (False, True)
            for family in FABRICS
            for devices in (QUICK if quick else DEVICES)
        ]
    )


def check(frame: "pd.DataFrame") -> str:
    """The torus falls by its axis, 1/2 from 4x4x4 to 8x8x8; the switched fabrics at equal speed do not as much."""
    equal = frame[frame.speed == "equal"].pivot_table(
        index="fabric", columns="devices", values="busbw_GBps"
    )
    cubes = equal.loc["torus", 512] / equal.loc["torus", 64]
    assert abs(cubes - 8**TORUS_SLOPE) < 0.05, f"the torus falls to {cubes:.2f}, not to 1/2"
    assert equal.loc["optical", 512] / equal.loc["optical", 64] > 0.75
    assert equal.loc["optical", 512] > 2.5 * equal.loc["torus", 512]
    built = frame[frame.speed == "as built"].pivot_table(
        index="fabric", columns="devices", values="busbw_GBps"
    )
    edge = built.loc["fat tree", 64] / built.loc["fat tree", 8]
    assert edge < 0.2, "leaving the host should cost NVLink's rate"
    return (
        f"All-to-all halves on a torus from 64 to 512 devices ({cubes:.2f}) and keeps "
        f"{equal.loc['optical', 512] / equal.loc['optical', 64]:.0%} on a switched fabric of equal speed; as built, "
        f"leaving the NVLink host costs a fat tree all but {edge:.0%}.\n"
        "Held against: the longest axis doubles, so a torus halves (within 0.05); a switch over 2.5 times a torus at 512."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw bus bandwidth against devices."""
    made, charts = figure(
        "All-to-all: a torus loses bandwidth as it grows, a switch only where it ends",
        2,
        sharey=True,
    )
    for axes, speed in zip(charts, ("as built", "equal"), strict=True):
        part = frame[frame.speed == speed]
        for number, (family, fabric) in enumerate(FABRICS.items()):
            rows = part[part.fabric == family]
            line(axes, rows.devices, rows.busbw_GBps, fabric.label, number)
        title = "as built" if speed == "as built" else "every device injects 400 GB/s"
        axes.set_title(title, fontsize=10, loc="left")
        powers(axes, (8, 32, 128, 512, 2048), "devices")
        powers(axes, (8, 16, 32, 64, 128, 256, 512), "", axis="y")
    charts[0].set_ylabel("bus bandwidth of 16 GiB a device, GB/s", fontsize=10)
    legend(charts[0], loc="lower left", fontsize=8.5)
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
