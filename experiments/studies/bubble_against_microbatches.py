"""How many microbatches does each pipeline schedule need before its bubble is small?

28.3B on 8 A100, m = 8 to 128. Expected: GPipe and 1F1B follow (p-1)/(m+p-1), what fills and drains (the part that
falls with m) interleaving divides by the chunks and split backwards (ZB-H1) by about three; the rest, uneven stages,
stays. Equal devices (no jitter). GPipe is replayed past what fits. Sources: Huang et al. 2019; Narayanan et al. 2021,
section 2.2; Qi et al. 2023.
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
            found = numbers(trial(MODEL, CLUSTER, plan, jitter=0.0))
            ideal = (STAGES - 1) / (m * chunks + STAGES - 1)
            rows.append({"schedule": schedule, "microbatches": m, "ideal_1f1b": ideal if chunks == 1 else float("nan"),
                         **{k: found[k] for k in ("bubble_fraction", "mfu", "peak_memory_gib", "fits")}})  # fmt: skip
    return pd.DataFrame(rows)


def check(frame: pd.DataFrame) -> str:
    """Bubbles fall with m; 1F1B within 3 points of its closed form; better schedules divide what fills and drains."""
    table = frame.pivot(index="microbatches", columns="schedule", values="bubble_fraction")
    ideal = frame[frame["schedule"] == "1f1b"].set_index("microbatches")["ideal_1f1b"]
    claim((table.diff().dropna() < 0).all().all(), "every bubble should fall with microbatches")
    off = float((table["1f1b"] - ideal).abs().max())
    claim(off < 0.03, f"1F1B is {off:.3f} off its closed form")
    part = fill_and_drain(table)
    less = {name: part["1f1b"] / part[name] for name in ("interleaved", "zb-h1")}
    claim(
        abs(less["interleaved"] - CASES["interleaved"]) < 0.3,
        f"interleaving divides by {less['interleaved']:.2f}",
    )
    claim(abs(less["zb-h1"] - 3) < 0.3, f"ZB-H1 divides by {less['zb-h1']:.2f}")
    claim(((table["gpipe"] - table["1f1b"]).abs() < 0.05).all(), "GPipe should have 1F1B's bubble")
    last = max(table.index)
    row = table.loc[last]
    unfit = frame[~frame["fits"].astype(bool)]
    names = ", ".join(
        f"{name} from m = {rows['microbatches'].min()}" for name, rows in unfit.groupby("schedule")
    )
    return (
        f"At m = {last} the bubble is {row['1f1b']:.1%} with 1F1B, {row['interleaved']:.1%} interleaved, "
        f"{row['zb-h1']:.1%} with ZB-H1; what fills and drains is {less['interleaved']:.1f} and "
        f"{less['zb-h1']:.1f} times less.\n"
        f"1F1B stays within {off:.1%} of (p-1)/(m+p-1); what is above it, uneven stages (embedding and "
        f"head) and messages cost. Does not fit an A100: {names or 'none'}."
    )


def fill_and_drain(table: pd.DataFrame) -> pd.Series:
    """Return microbatches' worth of idle time of a step, less what each microbatch adds: from the two largest m.

    Idle over busy time is a / m + c; c is the uneven stages'.
    """
    idle = table / (1 - table)
    half, most = sorted(table.index)[-2:]
    return (idle.loc[half] - idle.loc[most]) / (1 / half - 1 / most)


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the bubble over the microbatches, log-log, with the closed form."""
    chart, (axes,) = figure(
        "The bubble shrinks with microbatches; a better schedule saves as much as twice or four times as many"
    )
    lines(axes, frame, "microbatches", "bubble_fraction", "schedule")
    unfit = frame[~frame["fits"].astype(bool)]
    axes.plot(
        unfit["microbatches"],
        unfit["bubble_fraction"],
        "o",
        ms=9,
        mfc="none",
        mec=GREY,
        label="does not fit",
    )
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
