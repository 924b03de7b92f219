"""Why do deep pipelines need large batches?

Weak scaling of a pipeline at batch 8 and 128: GPT of hidden size 20,480 and 128 heads, 3 layers a stage, tensor
parallel 8, microbatch 1, p = 1, 2, 4, 8 on A100 hosts. Expected: throughput a device falls with p at batch 8 and
holds at batch 128. Source: Narayanan et al. 2021, section 5.3.1 and figure 11.
"""

from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure, label, lines
from experiments.study import claim, write
from experiments.study_figure import legend, powers
from experiments.trial import megatron_gpt, numbers, trial
from workloads.model import Model
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLUSTER, LAYERS_A_STAGE, TP = "a100-superpod", 3, 8
DEPTHS, BATCHES = (1, 2, 4, 8), (8, 128)


def model(stages: int) -> Model:
    """Return the model of the figure: 15B at one stage, 121B at eight."""
    return megatron_gpt(LAYERS_A_STAGE * stages, 20480, 128)


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every depth at both batches."""
    rows = []
    for batch in BATCHES:
        for p in DEPTHS[: 2 if quick else None]:
            plan = Plan(tp=TP, pp=p, global_batch=batch, seq_len=2048, recompute="full", dtype="fp16",
                        dropout=True, software="megatron-2021")  # fmt: skip
            found = numbers(trial(model(p), CLUSTER, plan))
            rows.append({"batch": batch, "stages": p, "bubble_ideal": (p - 1) / (batch + p - 1),
                         **{k: found[k] for k in ("tflops_per_device", "hfu", "bubble_fraction")}})  # fmt: skip
    return pd.DataFrame(rows)


def check(frame: pd.DataFrame) -> str:
    """At batch 8 the deepest pipeline loses about its bubble, at 128 little."""
    deep = frame["stages"].max()
    table = frame.pivot(index="stages", columns="batch", values="tflops_per_device")
    loss = 1 - table.loc[deep] / table.loc[1]
    small, large = BATCHES
    ideal = frame[(frame["stages"] == deep)].set_index("batch")["bubble_ideal"]
    claim(
        (table[small].diff().dropna() < 0).all(),
        "at batch 8 each doubling of the pipeline should cost",
    )
    claim(
        abs(loss[small] - ideal[small]) < 0.12,
        "the loss at batch 8 should be that of the bubble within 12 points",
    )
    claim(loss[large] < 0.12, "the loss at batch 128 should be under 12 %")
    return (
        f"From 1 to {deep} stages throughput a device falls by {loss[small]:.0%} at batch {small} and by "
        f"{loss[large]:.0%} at batch {large}.\nThe bubble alone explains {ideal[small]:.0%} and {ideal[large]:.0%}: "
        f"pipeline depth is paid for in batch (SC21, figure 11)."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw throughput a device over the depth, and the bubble beside it."""
    chart, (left, right) = figure("A deep pipeline holds its throughput only at a large batch", 2)
    named = frame.assign(name="batch " + frame["batch"].astype(str))
    lines(left, named, "stages", "tflops_per_device", "name")
    left.set_ylim(0, None)
    lines(right, named, "stages", "bubble_fraction", "name")
    right.yaxis.set_major_formatter("{x:.0%}")
    for axes, y, title in (
        (left, "model TFLOP/s a device", "throughput"),
        (right, "share of the step", "bubble"),
    ):
        powers(axes, sorted(set(frame["stages"])), "stages p (model grows with p)")
        label(axes, "pipeline stages p (the model grows with p)", y, title)
    legend(left)
    legend(right)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
