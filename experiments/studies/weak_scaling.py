"""Does utilisation stay flat from 1.7B on 32 devices to 1T on 3,072?

The ten models of the weak-scaling table with their published plans, replayed; published TFLOP/s a device beside.
Expected: flat utilisation, aggregate throughput growing with slope 1 in the number of devices, each row within 12 %
of the published one. Source: Narayanan et al. 2021 (SC21), Table 1 (FLOPs with recompute counted).
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.chart import figure, label
from experiments.study import claim, write
from experiments.study_figure import GREY, SERIES, legend, powers
from experiments.trial import long_step_time, preset_run
from sim.units import PFLOP, TERA
from workloads.step_flops import model_flops

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = {
    "1.7b": 137, "3.6b": 138, "7.5b": 142, "18.4b": 135, "39.1b": 138, "76.1b": 140, "145.6b": 148, "310.1b": 155,
    "529.6b": 163, "1008b": 163,
}  # fmt: skip
"""Achieved TFLOP/s a device of Table 1."""
PEAK_TFLOPS = 312
LATE = 1024
"""Devices beyond which points stand close."""


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay the models of the table; steps of many microbatches from two shorter ones."""
    rows = []
    for name, published in list(PUBLISHED.items())[: 6 if quick else None]:
        config = preset_run(f"sc21-{name}")
        plan = config.plan
        step = long_step_time(config)
        flops = model_flops(config.model, plan)["hardware"] / step
        rows.append({"model": name, "devices": plan.num_devices, "tp": plan.tp, "pp": plan.pp, "dp": plan.dp,
                     "chunks": plan.chunks, "step_time_s": step, "tflops_per_device": flops / plan.num_devices / TERA,
                     "published_tflops": published, "aggregate_pflops": flops / PFLOP})  # fmt: skip
    return pd.DataFrame(rows)


def slope(devices: pd.Series, flops: pd.Series) -> float:
    """Return the exponent of throughput in the number of devices."""
    return float(np.polyfit(np.log(devices), np.log(flops), 1)[0])


def check(frame: pd.DataFrame) -> str:
    """Slope 1.0 within 10 %; every row within 12 % of the table, 6 % on average."""
    grown = slope(frame["devices"], frame["aggregate_pflops"])
    printed = slope(frame["devices"], frame["published_tflops"] * frame["devices"])
    claim(abs(grown - 1.0) < 0.1, f"slope {grown:.2f}, not 1.0 within 10 %")
    off = (frame["tflops_per_device"] / frame["published_tflops"] - 1).abs()
    claim(off.max() < 0.12, f"a row is off by {off.max():.1%}, over 12 %")
    claim(off.mean() < 0.06, f"rows are off by {off.mean():.1%} on average, over 6 %")
    use = frame["tflops_per_device"] / PEAK_TFLOPS
    return (
        f"Utilisation stays between {use.min():.0%} and {use.max():.0%} of peak; aggregate throughput grows with slope "
        f"{grown:.2f} (published: {printed:.2f}), to {frame['aggregate_pflops'].max():.0f} PFLOP/s.\n"
        f"Held against SC21, Table 1: off by {off.mean():.1%} on average, {off.max():.1%} at most."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw aggregate throughput and TFLOP/s a device over the devices, simulated and published."""
    chart, (left, right) = figure("From 1.7B to 1T parameters throughput grows with the machine", 2)
    devices = frame["devices"]
    left.plot(devices, frame["aggregate_pflops"], "o-", color=SERIES[0], label="replayed")
    left.plot(
        devices,
        frame["published_tflops"] * devices * TERA / PFLOP,
        "s--",
        color=SERIES[1],
        label="published",
    )
    ideal = frame["aggregate_pflops"].iloc[0] / devices.iloc[0] * devices
    left.plot(devices, ideal, color=GREY, lw=1.0, ls=":", label="slope 1")
    left.set_yscale("log")
    right.plot(devices, frame["tflops_per_device"], "o-", color=SERIES[0])
    right.plot(devices, frame["published_tflops"], "s--", color=SERIES[1])
    for row in frame.iloc[::3].itertuples():
        point = (float(str(row.devices)), float(str(row.tflops_per_device)))
        late = point[0] > LATE
        right.annotate(str(row.model).upper(), point, (4 if late else 0, 16 if late else 9), textcoords="offset points",
                       ha="right" if late else "center", fontsize=8)  # fmt: skip
    right.set_ylim(0, 1.25 * float(frame["tflops_per_device"].max()))
    for axes, y in ((left, "PFLOP/s of the machine"), (right, "TFLOP/s a device (peak 312)")):
        powers(axes, [32, 64, 128, 256, 512, 1024, 3072], "devices")
        axes.tick_params(axis="x", labelsize=8)
        label(axes, "A100 devices", y)
    legend(left)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
