"""Which of all the pipeline schedules is fastest on the same model, ranks and microbatches, and at what memory?

14.6B on 8 A100, 64 microbatches, every schedule that is legal there, replayed whole (kernels, messages, uneven ends).
GPipe and breadth-first, which hold all microbatches, are replayed as if memory sufficed. Expected: zero-bubble
schedules lead, V-Half and V-Min hold least, nothing is best at both. Sources: Qi et al. 2023 and 2024.
"""

from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure, label
from experiments.study import claim, write
from experiments.study_figure import SERIES, hatch, legend
from experiments.trial import numbers, trial
from sim.errors import InputError
from workloads.plan import Plan
from workloads.schedules import SCHEDULES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, STAGES, MICROBATCHES, SEQ_LEN = "zb-gpt-14.6b", "a100-superpod", 8, 64, 1024
FAMILIES = {
    "naive": "no overlap", "gpipe": "fused backward", "1f1b": "fused backward", "bfs": "fused, chunks",
    "interleaved": "fused, chunks", "dualpipe": "both ends", "dualpipev": "both ends",
}  # fmt: skip
"""What a schedule is; the others split the backward."""
OTHERS = "split backward"


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every schedule; those that are illegal here carry the reason."""
    rows = []
    for name, kind in list(SCHEDULES.items())[: 4 if quick else None]:
        chunks = kind.default_chunks if kind.any_chunks else 1
        row = {"schedule": name, "family": FAMILIES.get(name, OTHERS), "reason": ""}
        try:
            plan = Plan(
                pp=STAGES, chunks=chunks, schedule=name, global_batch=MICROBATCHES, seq_len=SEQ_LEN
            )
            found = numbers(trial(MODEL, CLUSTER, plan))
        except InputError as error:
            rows.append(row | {"reason": str(error)})
            continue
        keys = (
            "step_time_s",
            "mfu",
            "bubble_fraction",
            "exposed_fraction",
            "peak_memory_gib",
            "fits",
        )
        rows.append(row | {key: found[key] for key in keys})
    return pd.DataFrame(rows)


def check(frame: pd.DataFrame) -> str:
    """The leader splits the backward, and the leanest legal schedule is not the fastest."""
    ran = frame[frame["reason"] == ""].set_index("schedule").sort_values("step_time_s")
    step, memory = ran["step_time_s"], ran["peak_memory_gib"]
    claim(step["naive"] > 5 * step["1f1b"], "naive should take over 5 times 1F1B")
    claim(memory["1f1b"] < memory["gpipe"], "1F1B should hold less than GPipe")
    best, leanest = step.index[0], str(memory.drop("naive").idxmin())
    if OTHERS in set(ran["family"]):
        claim(step[best] < 0.95 * step["1f1b"], "the best schedule should gain 5 %")
        claim(best != leanest, "the fastest should not be the leanest")
        claim(memory["v-half"] < memory["1f1b"], "v-half should hold less than 1F1B")
    unfit = [str(name) for name in ran.index[~ran["fits"].astype(bool)]]
    claim(best not in unfit and leanest not in unfit, f"of {best} and {leanest} one does not fit")
    return (
        f"{best} is fastest, {step['1f1b'] / step[best] - 1:.0%} ahead of 1F1B, with {memory[best]:.0f} GiB against "
        f"{memory['1f1b']:.0f}; {leanest} is leanest with {memory[leanest]:.0f} GiB and "
        f"{step[leanest] / step[best] - 1:.0%} slower.\n"
        f"{len(ran)} schedules ran, {len(frame) - len(ran)} are illegal at p = {STAGES}, m = {MICROBATCHES}; "
        f"{', '.join(unfit) or 'none'} would not fit."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw speed against 1F1B and peak memory, the fastest schedule on top; naive is off the scale."""
    chart, (left, right) = figure(
        "No schedule is both fastest and leanest: speed is bought with memory", 2, height=4.8, sharey=True
    )  # fmt: skip
    ran = frame[(frame["reason"] == "") & (frame["schedule"] != "naive")].sort_values("step_time_s")
    families = list(dict.fromkeys(frame["family"]))
    reference = float(ran[ran["schedule"] == "1f1b"]["step_time_s"].iloc[0])
    for family in families[1:]:
        part = ran[ran["family"] == family]
        at = [list(ran["schedule"]).index(name) for name in part["schedule"]]
        colour = SERIES[families.index(family)]
        ahead = reference / part["step_time_s"] - 1
        bars = left.barh(at, ahead, 0.72, color=colour, label=family)
        hatch(bars, part["fits"])
        left.bar_label(bars, [f"{value:+.1%}" for value in ahead], fontsize=8.5, padding=2)
        bars = right.barh(at, part["peak_memory_gib"], 0.72, color=colour)
        hatch(bars, part["fits"])
        right.bar_label(
            bars, [f"{value:.0f}" for value in part["peak_memory_gib"]], fontsize=8.5, padding=2
        )
    left.set_yticks(range(len(ran)), list(ran["schedule"]))
    left.invert_yaxis()
    left.set_xlim(right=1.2 * (reference / float(ran["step_time_s"].min()) - 1))
    left.xaxis.set_major_formatter("{x:.0%}")
    for axes, x in (
        (left, "throughput against 1F1B (naive: one seventh of it)"),
        (right, "peak memory of the fullest rank (GiB; hatched: too much)"),
    ):
        label(axes, x, "")
        axes.grid(visible=False, axis="y")
    legend(left, loc="lower right")
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
