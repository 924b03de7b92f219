"""What is gained when the experts' parallelism is decoupled from attention's?

Qwen3 235B-A22B on 64 H100, attention with TP = 8 and DP = 8. Coupled: experts inherit TP (ETP = 8) and EP stays
within DP (at most 8). Decoupled: experts fold TP away and EP spans any ranks, up to all 64. Expected: at the same
memory, or less, decoupled is faster. Sources: the lecture; MoE Parallel Folding (arXiv 2504.14960).
"""

from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure, label
from experiments.study import claim, write
from experiments.study_figure import SERIES, legend
from experiments.trial import Row, numbers, trial
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, TP, DP, SEQ_LEN, BATCH = "qwen3-235b-a22b", "h100-fat-tree", 8, 8, 4096, 128
SPLITS = {
    "coupled": ((1, 8), (2, 8), (4, 8), (8, 8)),
    "decoupled": ((8, 1), (16, 1), (32, 1), (64, 1)),
}
"""(ep, etp) of each case."""


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every split of the experts under the same attention plan."""
    rows = []
    for kind, splits in SPLITS.items():
        for ep, etp in splits[1 if quick else 0 :]:
            plan = Plan(tp=TP, dp=DP, ep=ep, etp=etp, sequence_parallel=True, global_batch=BATCH, seq_len=SEQ_LEN,
                        zero=1, recompute="full")  # fmt: skip
            result = trial(MODEL, CLUSTER, plan)
            found = numbers(result)
            row: Row = {"kind": kind, "ep": ep, "etp": etp}
            keys = ("step_time_s", "mfu", "peak_memory_gib", "fits")
            shares = {f"exposed_{axis}": result.mean.get(f"exposed.{axis}", 0.0) / found["step_time_s"]
                      for axis in ("ep", "etp", "edp", "tp")}  # fmt: skip
            rows.append(row | {key: found[key] for key in keys} | shares)
    return pd.DataFrame(rows)


def check(frame: pd.DataFrame) -> str:
    """At equal memory decoupled experts are faster; the best decoupled split beats the best coupled one."""
    row = frame.set_index(["ep", "etp"])
    slices, whole = row.loc[(8, 8)], row.loc[(64, 1)]
    claim(
        abs(slices["peak_memory_gib"] / whole["peak_memory_gib"] - 1) < 0.1,
        "the two should hold the same memory",
    )
    claim(
        whole["mfu"] > 1.2 * slices["mfu"], "decoupled should be 1.2 times as fast at equal memory"
    )
    best = frame[frame["fits"]].sort_values("mfu").groupby("kind").last()
    claim(
        best.loc["decoupled", "mfu"] > 1.2 * best.loc["coupled", "mfu"],
        "the best decoupled split should be 1.2 times as fast",
    )
    one, two = best.loc["coupled"], best.loc["decoupled"]
    return (
        f"Of the splits that fit, decoupled EP = {two['ep']} reaches {two['mfu']:.1%} MFU, coupled EP = {one['ep']} x "
        f"ETP = {one['etp']} {one['mfu']:.1%}: {two['mfu'] / one['mfu']:.2f} times.\n"
        f"With all 64 ways of splitting experts used, EP = 64 is {whole['mfu'] / slices['mfu']:.2f} times as fast as "
        f"EP = 8 x ETP = 8 at the same {whole['peak_memory_gib']:.0f} GiB."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw MFU against memory, a point a split."""
    chart, (axes,) = figure(
        "Freed from attention's TP and DP, experts run faster at the same memory", height=4.2
    )
    for index, (kind, part) in enumerate(frame.groupby("kind", sort=False)):
        axes.plot(part["peak_memory_gib"], part["mfu"], color=SERIES[index], lw=1.0, ls=":")
        axes.plot(
            part["peak_memory_gib"], part["mfu"], "os"[index], color=SERIES[index], ms=7, label=kind
        )
        for row in part.itertuples():
            text = f"EP {row.ep}" + (f" x ETP {row.etp}" if row.etp != 1 else "")
            point = (float(str(row.peak_memory_gib)), float(str(row.mfu)))
            axes.annotate(text, point, (7, 6), textcoords="offset points", fontsize=8.5,
                          bbox={"fc": "white", "ec": "none", "pad": 0.8})  # fmt: skip
    axes.axvline(80, color="#8a8a8a", ls="--", lw=1.2)
    axes.text(
        80.5,
        0.02,
        "H100: 80 GiB",
        transform=axes.get_xaxis_transform(),
        fontsize=8.5,
        color="#555555",
    )
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_ylim(0, None)
    axes.margins(x=0.12, y=0.12)
    label(axes, "peak memory of a rank (GiB)", "MFU")
    legend(axes, loc="lower left")
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
