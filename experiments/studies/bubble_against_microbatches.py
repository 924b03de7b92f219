"""How many microbatches does each pipeline schedule need before its bubble is small?

28.3B on 8 A100, m = 8 to 128. Expected: GPipe and 1F1B follow (p-1)/(m+p-1), interleaving divides the bubble by the
chunks, split backwards (ZB-H1) by about three. Sources: Huang et al. 2019; Narayanan et al. 2021, section 2.2; Qi et
al. 2023.
"""

from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure, label, lines
from experiments.study import claim, write
from experiments.study_figure import GREY, legend, powers
from experiments.trial import numbers, trial
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, STAGES, SEQ_LEN = "zb-gpt-28.3b", "a100-superpod", 8, 1024
MICROBATCHES = (8, 16, 32, 64, 128)
CASES = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "zb-h1": 1, "zb-v": 2}
"""Schedules and the chunks a rank holds."""


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every schedule at every number of microbatches."""
    rows = []
    for schedule, chunks in CASES.items():
        for m in MICROBATCHES[: 2 if quick else None]:
            plan = Plan(
                pp=STAGES, chunks=chunks, schedule=schedule, global_batch=m, seq_len=SEQ_LEN
            )
            found = numbers(trial(MODEL, CLUSTER, plan))
            ideal = (STAGES - 1) / (m * chunks + STAGES - 1)
            rows.append({"schedule": schedule, "microbatches": m, "ideal_1f1b": ideal if chunks == 1 else float("nan"),
                         **{k: found[k] for k in ("bubble_fraction", "mfu", "peak_memory_gib")}})  # fmt: skip
    return pd.DataFrame(rows)


def check(frame: pd.DataFrame) -> str:
    """Bubbles fall with m; 1F1B within 4 points of its closed form; the better schedules keep their order."""
    table = frame.pivot(index="microbatches", columns="schedule", values="bubble_fraction")
    ideal = frame[frame["schedule"] == "1f1b"].set_index("microbatches")["ideal_1f1b"]
    claim((table.diff().dropna() < 0).all().all(), "every bubble should fall with microbatches")
    off = float((table["1f1b"] - ideal).abs().max())
    claim(off < 0.05, "1F1B is off its closed form")
    claim((table["interleaved"] < table["1f1b"]).all(), "interleaving should have less bubble")
    claim((table["zb-h1"] < table["1f1b"]).all(), "ZB-H1 should have less bubble")
    claim(((table["gpipe"] - table["1f1b"]).abs() < 0.05).all(), "GPipe should have 1F1B's bubble")
    last = max(table.index)
    row = table.loc[last]
    return (
        f"At m = {last} the bubble is {row['1f1b']:.1%} with 1F1B, {row['interleaved']:.1%} interleaved, "
        f"{row['zb-h1']:.1%} with ZB-H1.\n1F1B stays within {off:.1%} of (p-1)/(m+p-1); what is above it, "
        f"uneven stages (embedding and head) and messages cost."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the bubble over the microbatches, log-log, with the closed form."""
    chart, (axes,) = figure(
        "The bubble shrinks with microbatches; a better schedule saves as much as twice or four times as many"
    )
    lines(axes, frame, "microbatches", "bubble_fraction", "schedule")
    ideal = frame[frame["schedule"] == "1f1b"]
    axes.plot(
        ideal["microbatches"],
        ideal["ideal_1f1b"],
        color=GREY,
        ls="--",
        lw=1.2,
        label="(p-1) / (m+p-1)",
    )
    powers(axes, sorted(set(frame["microbatches"])), "microbatches a step")
    axes.set_yscale("log")
    axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.4], ["2%", "5%", "10%", "20%", "40%"])
    axes.minorticks_off()
    label(axes, f"microbatches a step (p = {STAGES} stages)", "bubble, share of the step")
    legend(axes)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
