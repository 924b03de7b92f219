"""When is tensor parallelism worth it beside data parallelism, for a model that fits one device?

GPT of 5.9B (32 layers, hidden 3,840, 32 heads) on up to 64 A100, microbatch 1, t x d = 64 or, where the batch has fewer
sequences than that, d of the batch. Expected: with sequences enough the least tensor parallelism wins, at every batch
of the paper (32, 128, 512): its all-reduces come with every microbatch, that of the gradients once a step (Narayanan et
al. 2021, figure 15). Where the batch has run out (fewer sequences than devices) data parallelism leaves devices idle,
and tensor parallelism is what puts them to work (CS336 lecture 8: data parallelism eats batch, a resource).
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.chart import figure, label, lines
from experiments.study import claim, write
from experiments.study_figure import GREY, SERIES, legend, powers
from experiments.trial import Row, megatron_gpt, numbers, trial
from sim.units import KILO
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, DEVICES = megatron_gpt(32, 3840, 32), "a100-superpod", 64
DEGREES, BATCHES = (2, 4, 8, 16, 32), (4, 8, 16, 32, 128, 512)
PAPER = 32
"""The paper's smallest batch: from there on every split has sequences enough."""
SHOWN = (4, 32, 512)


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every split at every batch."""
    rows = []
    for batch in BATCHES[::3] if quick else BATCHES:
        for tp in DEGREES:
            dp = min(DEVICES // tp, batch)
            plan = Plan(tp=tp, dp=dp, global_batch=batch, seq_len=2048, recompute="full",
                        dtype="fp16", dropout=True, software="megatron-2021")  # fmt: skip
            result = trial(MODEL, CLUSTER, plan)
            found = numbers(result)
            row: Row = {"batch": batch, "tp": tp, "dp": dp, "devices": tp * dp, "step_time_s": found["step_time_s"],
                        "tflops_per_device": found["tflops_per_device"],
                        "sequences_per_s": batch / found["step_time_s"]}  # fmt: skip
            exposed = {
                f"exposed_{axis}_s": result.mean.get(f"exposed.{axis}", 0.0)
                for axis in ("tp", "dp")
            }
            rows.append(row | exposed)
    return pd.DataFrame(rows)


def best(frame: pd.DataFrame) -> dict[int, int]:
    """Return the degree of the shortest step at each batch."""
    times = frame.pivot(index="batch", columns="tp", values="step_time_s")
    return {int(batch): int(row.idxmin()) for batch, row in times.iterrows()}


def check(frame: pd.DataFrame) -> str:
    """With sequences enough the least degree is best; below, the one that puts all devices to work, 64 / batch."""
    found = best(frame)
    for batch, tp in found.items():
        claim(
            tp == max(DEVICES // batch, DEGREES[0]),
            f"at batch {batch} TP = {tp} is best, not 64 / batch",
        )
    large = frame[frame["batch"] == frame["batch"].max()].set_index("tp")
    small = frame[frame["batch"] == frame["batch"].min()].set_index("tp")
    full = frame[frame["batch"] >= PAPER]
    claim(
        (full.groupby("batch")["tflops_per_device"].diff().dropna() < 0).all(),
        "with sequences enough each degree should cost",
    )
    if large.index.size and frame["batch"].max() >= PAPER:
        claim(
            large["tflops_per_device"][8] > 1.3 * large["tflops_per_device"][16],
            "TP across hosts should cost over 1.3 times",
        )
    low, high = frame["batch"].min(), frame["batch"].max()
    gain = small["step_time_s"][2] / small["step_time_s"].min()
    return (
        f"With {PAPER} sequences or more TP = 2, the least that fits, is best (at {high}: "
        f"{large['tflops_per_device'][2]:.0f} TFLOP/s a device, {large['tflops_per_device'][8]:.0f} at TP = 8); with "
        f"{low} sequences TP = {found[low]} on 64 devices is {gain:.1f} times as fast as TP = 2 on "
        f"{small['devices'][2]}.\n"
        "Tensor parallelism talks in every layer of every microbatch, data parallelism once a step (SC21, figure 15): "
        "best is TP = 64 / batch, the devices that the batch leaves over."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the speed of the machine over t, a line a batch, and what either parallelism exposes."""
    chart, (left, right) = figure(
        "Tensor parallelism pays where the batch has fewer sequences than the machine has devices",
        2,
    )
    named = frame.assign(name="batch " + frame["batch"].astype(str))
    lines(left, named, "tp", "sequences_per_s", "name")
    for tp, group in ((tp, frame[frame["batch"] == batch]) for batch, tp in best(frame).items()):
        row = group[group["tp"] == tp].iloc[0]
        left.plot(tp, row["sequences_per_s"], marker="o", ms=14, mfc="none", mec="#333333", mew=1.6, ls="")  # fmt: skip
    left.set_yscale("log", base=2)
    left.yaxis.set_major_formatter("{x:g}")
    _exposed(right, frame)
    names = ("sequences/s of the machine (ring: best)", "exposed communication, ms a step")
    for axes, y in zip((left, right), names, strict=True):
        powers(axes, DEGREES, "")
        label(axes, "tensor parallel degree t (data: 64 / t, at most the batch)", y)
        axes.axvline(8, color="#bbbbbb", ls=":", lw=1.2, zorder=0)
    left.text(8.3, 0.02, "one host", fontsize=8.5, transform=left.get_xaxis_transform(), color="#777777")  # fmt: skip
    legend(left, ncols=2, fontsize=8)
    legend(right, fontsize=8)
    return chart


def _exposed(axes: Any, frame: pd.DataFrame) -> None:
    """What tensor parallelism exposes at three batches, and data parallelism, once a step, at the largest."""
    batches = [b for b in dict.fromkeys(frame["batch"]) if b in SHOWN]
    for batch in batches:
        part = frame[frame["batch"] == batch]
        number = list(dict.fromkeys(frame["batch"])).index(batch)
        axes.plot(part["tp"], part["exposed_tp_s"] * KILO, color=SERIES[number], marker="o", lw=1.8, ms=5,
                  label=f"tensor, batch {batch}")  # fmt: skip
    part = frame[frame["batch"] == batches[-1]]
    axes.plot(part["tp"], part["exposed_dp_s"] * KILO, color=GREY, marker="s", ls="--", lw=1.8, ms=5,
              label="data (gradients), any batch")  # fmt: skip
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,g}")


def main() -> None:
    """Write the answer into results."""
    write(__file__)
