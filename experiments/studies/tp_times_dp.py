"""How should 64 A100 be split between tensor and data parallelism, for a model that fits one device?

GPT of 5.9B (32 layers, hidden 3,840, 32 heads), microbatch 1, t x d = 64, batches 32, 128 and 512. Expected: least
tensor parallelism wins, its all-reduces come with every microbatch and its products shrink; the gap narrows with
batch for d large (the gradient all-reduce comes once a step). Source: Narayanan et al. 2021, figure 15.
"""

from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure, label, lines
from experiments.study import write
from experiments.study_figure import legend, powers
from experiments.trial import Row, grouped, megatron_gpt, numbers, trial
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, DEVICES = megatron_gpt(32, 3840, 32), "a100-superpod", 64
DEGREES, BATCHES = (2, 4, 8, 16, 32), (32, 128, 512)


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every split at every batch."""
    rows = []
    for batch in BATCHES[: 1 if quick else None]:
        for tp in DEGREES:
            plan = Plan(tp=tp, dp=DEVICES // tp, global_batch=batch, seq_len=2048, recompute="full",
                        dtype="fp16", dropout=True, software="megatron-2021")  # fmt: skip
            result = trial(MODEL, CLUSTER, plan)
            found, parts = numbers(result), grouped(result.mean)
            row: Row = {"batch": batch, "tp": tp, "dp": DEVICES // tp, "step_time_s": found["step_time_s"],
                        "tflops_per_device": found["tflops_per_device"]}  # fmt: skip
            exposed = {
                f"exposed_{axis}_s": result.mean.get(f"exposed.{axis}", 0.0)
                for axis in ("tp", "dp")
            }
            rows.append(
                row | exposed | {"communication": parts["communication"] / found["step_time_s"]}
            )
    return pd.DataFrame(rows)


def check(frame: pd.DataFrame) -> str:
    """At a large batch throughput falls with t; leaving the host costs most."""
    large = frame[frame["batch"] == frame["batch"].max()].set_index("tp")
    small = frame[frame["batch"] == frame["batch"].min()].set_index("tp")
    assert large["tflops_per_device"][8] > 1.3 * large["tflops_per_device"][16]
    assert (large["tflops_per_device"].diff().dropna()[1:] < 0).all()
    assert (frame.groupby("batch")["exposed_tp_s"].diff().dropna() > -1e-9).all()
    best_small, best_large = (
        small["tflops_per_device"].idxmax(),
        large["tflops_per_device"].idxmax(),
    )
    assert best_large <= best_small
    top, low = frame["batch"].max(), frame["batch"].min()
    return (
        f"At batch {top} TP = {best_large} is best ({large['tflops_per_device'][best_large]:.0f} TFLOP/s a device), "
        f"TP = 32 reaches {large['tflops_per_device'][32]:.0f}; at batch {low} TP = {best_small} is best too.\n"
        "Tensor parallelism talks in every layer of every microbatch, data parallelism once a step: "
        "the larger the batch, the better data parallelism pays (SC21, figure 15)."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw throughput over t, a line a batch, and what communication takes."""
    chart, (left, right) = figure(
        "Beside data parallelism the least tensor parallelism is best, the more so at large batch",
        2,
    )
    named = frame.assign(name="batch " + frame["batch"].astype(str))
    lines(left, named, "tp", "tflops_per_device", "name")
    lines(right, named, "tp", "communication", "name")
    right.yaxis.set_major_formatter("{x:.0%}")
    left.set_ylim(0, None)
    right.set_ylim(0, None)
    for axes, y in (
        (left, "model TFLOP/s a device"),
        (right, "exposed communication, share of the step"),
    ):
        powers(axes, DEGREES, "tensor parallel degree t (data parallel 64 / t)")
        label(axes, "tensor parallel degree t (data parallel 64 / t)", y)
        axes.axvline(8, color="#bbbbbb", ls=":", lw=1.2)
    left.text(
        8.2, 0.03, "host", fontsize=8.5, transform=left.get_xaxis_transform(), color="#777777"
    )
    legend(left)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
