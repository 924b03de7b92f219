"""How should 64 A100 be split between tensor and pipeline parallelism?

GPT of 162.2B (32 layers, hidden 20,480, 128 heads), microbatch 1, t x p = 64, batches 32 and 128. Expected: t = 8,
the host, is best; beyond it tensor parallelism crosses hosts, below it the bubble grows. Source: Narayanan et al.
2021, figure 13.
"""

from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure, label, stacked
from experiments.study import claim, write
from experiments.study_figure import bars, legend
from experiments.trial import Row, grouped, megatron_gpt, numbers, trial
from sim.palette import AXES, CAUSES
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, DEVICES = megatron_gpt(32, 20480, 128), "a100-superpod", 64
DEGREES, BATCHES = (2, 4, 8, 16, 32), (32, 128)
COLOURS = {
    "compute": CAUSES["compute"].colour, "recompute": CAUSES["recompute"].colour,
    "communication": AXES["tp"].colour, "bubble": CAUSES["bubble.steady"].colour, "other": CAUSES["launch"].colour,
}  # fmt: skip


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every split at both batches."""
    rows = []
    for batch in BATCHES[: 1 if quick else None]:
        for tp in DEGREES:
            plan = Plan(tp=tp, pp=DEVICES // tp, global_batch=batch, seq_len=2048, recompute="full",
                        dtype="fp16", dropout=True, software="megatron-2021")  # fmt: skip
            result = trial(MODEL, CLUSTER, plan)
            found, parts = numbers(result), grouped(result.mean)
            row: Row = {"batch": batch, "tp": tp, "pp": DEVICES // tp, "step_time_s": found["step_time_s"],
                        "tflops_per_device": found["tflops_per_device"],
                        "peak_memory_gib": found["peak_memory_gib"]}  # fmt: skip
            rows.append(
                row | {head: seconds / found["step_time_s"] for head, seconds in parts.items()}
            )
    return pd.DataFrame(rows)


def check(frame: pd.DataFrame) -> str:
    """TP = 8 is best at every batch; communication rises with t, the bubble falls."""
    for _, part in frame.groupby("batch"):
        speed = part.set_index("tp")["tflops_per_device"]
        claim(speed.idxmax() == 8, "TP = 8 should be best")
        shares = part.set_index("tp")
        claim(
            shares["communication"][32] > 2 * shares["communication"][8],
            "TP across hosts should at least double communication",
        )
        claim(shares["bubble"][2] > shares["bubble"][8], "TP = 2 should have more bubble")
    speed = frame[frame["batch"] == frame["batch"].max()].set_index("tp")["tflops_per_device"]
    return (
        f"TP = 8 (one host) with PP = 8 is best at both batches: {speed[8]:.0f} TFLOP/s a device against "
        f"{speed[2]:.0f} at TP = 2 and {speed[32]:.0f} at TP = 32.\nMore tensor parallelism leaves the host and its "
        f"collectives show; less means a deeper pipeline and its bubble (SC21, figure 13: the same optimum)."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw throughput by split, and where the time goes at the smaller batch."""
    chart, (left, right) = figure(
        "On 64 A100 tensor parallelism of one host (8) and pipelines across hosts are best", 2
    )
    names = [f"{t} x {p}" for t, p in frame[["tp", "pp"]].drop_duplicates().itertuples(index=False)]
    groups = [
        (f"batch {batch}", list(part["tflops_per_device"]))
        for batch, part in frame.groupby("batch", sort=False)
    ]
    bars(left, names, groups, text="%.0f")
    label(left, "TP x PP", "model TFLOP/s a device")
    legend(left, loc="upper right")
    left.set_ylim(0, 1.25 * float(frame["tflops_per_device"].max()))
    small = frame[frame["batch"] == frame["batch"].min()]
    stacked(right, names, {head: list(small[head]) for head in COLOURS}, COLOURS)
    right.yaxis.set_major_formatter("{x:.0%}")
    right.set_ylim(0, 1.28)
    right.set_yticks([0, 0.25, 0.5, 0.75, 1.0])
    label(right, "TP x PP", "share of the step", f"batch {small['batch'].iloc[0]}")
    legend(right, ncols=3, loc="upper center", fontsize=8)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
