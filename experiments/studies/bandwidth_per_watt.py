"""How much bandwidth do the machines buy with their power?

Expected: the all-optical CloudMatrix384 takes 3.9 times the power of an NVL72 rack (559 against 145 kW, SemiAnalysis)
for 1.7 times its bf16 FLOP/s (SemiAnalysis; 1.6 with the chip's own data sheet), and what it buys is a fast domain of
384 devices instead of 72 (CS336 lecture 8: strong communication at about 4 times the power). The replay adds what
that domain moves: more in all, less a watt. Only published system power is used; for others that of the accelerators
alone, marked so.
"""

from typing import TYPE_CHECKING

import numpy as np

from experiments.study import claim, write
from experiments.study_figure import GREY, bars, figure, short
from sim.collectives import Communicator
from sim.units import GB, KILO, PFLOP, TB, GiB
from topologies import cluster

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MACHINES = {
    "gb200-nvl72": (72, "GB200\nNVL72", "system"),
    "cloudmatrix-384": (384, "Cloud-\nMatrix", "system"),
    "h100-fat-tree": (384, "H100\nfat tree", "accelerators"),
    "a100-superpod": (384, "A100\nfat tree", "accelerators"),
    "tpu-v4": (384, "TPU v4\ntorus", "accelerators"),
}
"""Devices, label, and whose power is published."""
BYTES = 1 * GiB
FLOPS_RATIO, TOLERANCE = 1.7, 0.06
"""CloudMatrix384 over NVL72, after SemiAnalysis."""


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Add up bandwidth, FLOP/s and power of each machine."""
    import pandas as pd

    chosen = list(MACHINES)[:2] if quick else list(MACHINES)
    return pd.DataFrame([_row(name) for name in chosen])


def _row(name: str) -> dict[str, object]:
    devices, _, whose = MACHINES[name]
    machine = cluster(name, devices)
    everyone = Communicator(machine, np.arange(devices))
    routed = everyone.plan("all_to_all", BYTES)
    reduced = everyone.plan("all_reduce", BYTES)
    power = machine.facts["power_W"] / KILO
    moved = devices * BYTES * (devices - 1) / devices / routed.alone
    return {
        "machine": name,
        "devices": devices,
        "power_of": whose,
        "power_kW": power,
        "PFLOPs": devices * machine.device(0).peak["bf16"] / PFLOP,
        "all_to_all_TBps": moved / TB,
        "all_reduce_busbw_GBps": 2 * (devices - 1) / devices * BYTES / reduced.alone / GB,
        "PFLOPs_per_kW": devices * machine.device(0).peak["bf16"] / PFLOP / power,
        "all_to_all_GBps_per_kW": moved / GB / power,
    }


def check(frame: "pd.DataFrame") -> str:
    """Routed bandwidth grows more than FLOP/s, and less than power; FLOP/s 1.7 times within 6 %."""
    table = frame.set_index("machine")
    optical, rack = table.loc["cloudmatrix-384"], table.loc["gb200-nvl72"]
    power = optical.power_kW / rack.power_kW
    flops = optical.PFLOPs / rack.PFLOPs
    moved = optical.all_to_all_TBps / rack.all_to_all_TBps
    per_watt = moved / power
    claim(abs(flops / FLOPS_RATIO - 1.0) < TOLERANCE, f"FLOP/s are {flops:.2f} times, not 1.7")
    claim(flops < moved, f"bandwidth is {moved:.1f} times, FLOP/s {flops:.1f}")
    claim(per_watt < 1.0, f"a watt moves {per_watt:.2f} times as much")
    return (
        f"CloudMatrix384 takes {power:.1f} times the power of an NVL72 for {flops:.1f} times its FLOP/s and "
        f"{moved:.1f} times its all-to-all bandwidth: {per_watt:.2f} of it a watt.\n"
        "Power is the published 559 and 145 kW, FLOP/s those of the data sheets (published ratio 1.7 "
        "within 6 %), a watt "
        f"computes {flops / power:.2f} of an NVL72's; bandwidth from replayed collectives of 1 GiB in one domain."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw power, and what a kilowatt buys."""
    made, charts = figure(
        "CloudMatrix384: four times an NVL72's power for a domain of 384 devices, and less bandwidth a watt",
        3,
    )
    names = [MACHINES[name][1] for name in frame.machine]
    columns = (
        ("power_kW", "power, kW"),
        ("all_to_all_GBps_per_kW", "all-to-all GB/s a kW"),
        ("PFLOPs_per_kW", "bf16 PFLOP/s a kW"),
    )
    for axes, (column, label) in zip(charts, columns, strict=True):
        bars(axes, names, [(label, list(frame[column]))], text=short)
        for patch, whose in zip(axes.patches, frame.power_of, strict=True):
            if whose != "system":
                patch.set_facecolor(GREY)
        axes.set_title(label, fontsize=10, loc="left")
        axes.tick_params(axis="x", labelsize=7)
    charts[0].text(
        0.98,
        0.9,
        "grey: power of the\naccelerators alone",
        transform=charts[0].transAxes,
        fontsize=8,
        ha="right",
    )
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
