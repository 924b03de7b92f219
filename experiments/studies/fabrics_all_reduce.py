"""How fast does a torus, a fat tree and an all-optical machine all-reduce, from 8 to 4,096 devices?

Expected: bus bandwidth hardly falls with size on any of them, since a ring or a torus' rings use neighbours only; a
torus reaches what its links add up to once its axes close (4x4x4 and more), a fat tree what its slowest level lets
through, in-switch reduction more (CS336 lecture 8; TPU v4's published 1.1 PB/s of all-reduce over 4,096 devices,
within 10 %).
"""

from typing import TYPE_CHECKING

import numpy as np

from experiments.collective_command import bus_factor
from experiments.fabric import FABRICS, busbw_row
from experiments.study import claim, write
from experiments.study_figure import figure, legend, line, powers
from sim.collectives import Communicator
from sim.units import GB, KILO, TB, GiB
from topologies import cluster

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BYTES = 1 * GiB
DEVICES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
QUICK = (8, 64, 512)
POD, POD_PBPS, POD_TOLERANCE = 4096, 1.1, 0.10
"""TPU v4: devices of a pod and PB/s of its all-reduce (Google Cloud, TPU v4 system specification)."""


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Price an all-reduce of 1 GiB on every fabric, as built and at equal speed."""
    import pandas as pd

    return pd.DataFrame(
        [
            busbw_row(family, "all_reduce", devices, BYTES, equal=equal)
            for equal in (False, True)
            for family in FABRICS
            for devices in (QUICK if quick else DEVICES)
        ]
        + [_pod()]
    )


def _pod() -> dict[str, object]:
    """The row of a TPU v4 pod."""
    everyone = Communicator(cluster("tpu-v4", POD), np.arange(POD))
    chosen = everyone.plan("all_reduce", BYTES)
    rate = BYTES / chosen.alone * bus_factor("all_reduce", POD) / GB
    return {"speed": "as built", "fabric": "TPU v4", "preset": "tpu-v4", "devices": POD,
            "algorithm": chosen.algorithm, "time_s": chosen.alone, "busbw_GBps": rate}  # fmt: skip


def check(frame: "pd.DataFrame") -> str:
    """From a closed torus (64) to the largest, no fabric at equal speed loses more than 30 %."""
    equal = frame[(frame.speed == "equal") & (frame.devices >= 64)]
    table = equal.pivot_table(index="fabric", columns="devices", values="busbw_GBps")
    kept = table.iloc[:, -1] / table.iloc[:, 0]
    claim(kept.min() > 0.7, f"busbw falls to {kept.min():.2f} of that of 64 devices")
    torus = frame[(frame.fabric == "torus") & (frame.speed == "as built")].set_index("devices")
    small, closed = torus.busbw_GBps[8], torus.busbw_GBps[64]
    claim(closed > 1.7 * small, "closing the axes should nearly double the torus")
    built = frame[frame.speed == "as built"].pivot_table(
        index="fabric", columns="devices", values="busbw_GBps"
    )
    most = max(equal.devices)
    pod = float(frame[frame.fabric == "TPU v4"].busbw_GBps.iloc[0]) * POD * GB / (KILO * TB)
    claim(abs(pod / POD_PBPS - 1) < POD_TOLERANCE, f"a TPU v4 pod moves {pod:.2f} PB/s, not 1.1")
    claim(
        built.loc["torus", most] > built.loc["fat tree", most], "the torus should beat the fat tree"
    )
    return (
        f"All-reduce scales on every fabric: at equal device speed {most:,} devices keep {kept.min():.0%} or more of "
        f"the bus bandwidth of 64; as built the v5p torus moves {built.loc['torus', most]:.0f} GB/s there, H100 on a "
        f"fat tree {built.loc['fat tree', most]:.0f}.\n"
        "Held against: less than 30 % loss from 64 devices on, a torus whose axes close at least 1.7 times as fast as "
        f"an open one of 8 (found {closed / small:.1f}), {pod:.2f} PB/s of a TPU v4 pod (published {POD_PBPS})."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw bus bandwidth against devices."""
    made, charts = figure("All-reduce: rings of neighbours scale on every fabric", 2, sharey=True)
    for axes, speed in zip(charts, ("as built", "equal"), strict=True):
        part = frame[frame.speed == speed]
        for number, (family, fabric) in enumerate(FABRICS.items()):
            rows = part[part.fabric == family]
            line(axes, rows.devices, rows.busbw_GBps, fabric.label, number)
        title = "as built" if speed == "as built" else "every level carries 400 GB/s a device"
        axes.set_title(title, fontsize=10, loc="left")
        powers(axes, (8, 32, 128, 512, 2048), "devices")
        axes.set_ylim(0)
    charts[0].set_ylabel("bus bandwidth of 1 GiB, GB/s", fontsize=10)
    legend(charts[1], loc="lower right")
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
