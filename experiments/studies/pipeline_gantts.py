"""What do the pipeline schedules look like on one model, and what does each cost in bubble and memory?

A 6.2B model (the smallest of the zero-bubble paper that fills four stages) on 4 A100, 8 microbatches, every action of
every rank replayed. Expected: naive uses 1/p; GPipe and 1F1B share a bubble of (p-1)/(m+p-1), 1F1B with less memory;
interleaving halves it; splitting the backward fills it. Sources: Huang et al. 2019 (GPipe), Narayanan et al. 2021, Qi
et al. 2023 (zero bubble), DeepSeek-V3 report (DualPipe).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure
from experiments.study import claim, write
from experiments.trial import numbers, trial
from sim.palette import ACTION_PHASE, IDLE, PHASES, shade
from sim.program import Compute, Merged
from sim.timeline import Timeline
from sim.units import ms
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODEL, CLUSTER = "zb-gpt-6.2b", "a100-superpod"
STAGES, MICROBATCHES, SEQ_LEN = 4, 8, 1024
CASES = {
    "naive": 1, "gpipe": 1, "1f1b": 1, "interleaved": 2, "zb-h1": 1, "zb-v": 2, "dualpipe": 1,
}  # fmt: skip
"""Schedules and the chunks a rank holds."""
PAIR = ("F", "B")
"""Phases of a forward run with a backward, drawn over each other."""
COLUMNS = ["schedule", "step_ms", "bubble_fraction", "peak_memory_gib", "rank", "action", "chunk",
           "microbatch", "start_ms", "end_ms"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Box:
    """One action of one rank, from its first kernel to its last."""

    rank: int
    kind: str
    chunk: int
    microbatch: int
    start: float
    end: float


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every schedule; one row an action of a rank."""
    rows = []
    for schedule, chunks in CASES.items():
        plan = Plan(pp=STAGES, chunks=chunks, schedule=schedule, global_batch=MICROBATCHES,
                    seq_len=SEQ_LEN, recompute="none")  # fmt: skip
        result = trial(MODEL, CLUSTER, plan)
        found = numbers(result)
        head = (
            schedule,
            result.timeline.step_time / ms,
            found["bubble_fraction"],
            found["peak_memory_gib"],
        )
        rows += [
            (*head, b.rank, b.kind, b.chunk, b.microbatch, b.start / ms, b.end / ms)
            for b in actions(result.timeline)
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def actions(timeline: Timeline) -> list[Box]:
    """Return what each pipeline place computes, action by action."""
    found: list[Box] = []
    for stream in (s for s in timeline.streams if s.computes):
        place = timeline.place(stream.rank_class)
        last: tuple[object, ...] = ()
        for op, action, _, start, end in stream.spans:
            if not isinstance(op, Compute | Merged):
                continue
            if action == last:
                found[-1] = Box(place, *_name(action), found[-1].start, end)
            else:
                found.append(Box(place, *_name(action), start, end))
            last = action
    return found


def _name(action: tuple[object, ...]) -> tuple[str, int, int]:
    kind, _, chunk, microbatch = action
    return str(kind), int(str(chunk)), int(str(microbatch))


def check(frame: pd.DataFrame) -> str:
    """Bubbles stand in the order of the papers; memory too."""
    row = frame.groupby("schedule", sort=False).first()
    bubble, memory = row["bubble_fraction"], row["peak_memory_gib"]
    claim(
        abs(bubble["naive"] - (1 - 1 / STAGES)) < 0.05, "naive should idle 1 - 1/p within 5 points"
    )
    ideal = (STAGES - 1) / (MICROBATCHES + STAGES - 1)
    claim(abs(bubble["gpipe"] - ideal) < 0.06, "GPipe's bubble is off (p-1)/(m+p-1) by 6 points")
    claim(abs(bubble["1f1b"] - ideal) < 0.06, "1F1B's bubble is off (p-1)/(m+p-1) by 6 points")
    claim(
        bubble["interleaved"] < 0.75 * bubble["1f1b"],
        "interleaving should have under 0.75 of 1F1B's bubble",
    )
    claim(bubble["zb-h1"] < 0.75 * bubble["1f1b"], "ZB-H1 should have under 0.75 of 1F1B's bubble")
    claim(bubble["zb-v"] < bubble["zb-h1"], "ZB-V should have less bubble than ZB-H1")
    claim(memory["1f1b"] < memory["gpipe"], "1F1B should hold less than GPipe")
    claim(
        memory["dualpipe"] > 1.2 * memory["1f1b"],
        "DualPipe should hold over 1.2 times 1F1B's memory",
    )
    step = row["step_ms"]
    shown = ", ".join(f"{name} {bubble[name]:.0%}" for name in row.index)
    claim(step["zb-v"] < step["dualpipe"], "DualPipe's second copy should cost time")
    return (
        f"Bubble at p = {STAGES}, m = {MICROBATCHES}: {shown}.\n"
        f"1F1B keeps GPipe's bubble with {memory['1f1b']:.0f} instead of {memory['gpipe']:.0f} GiB; "
        f"interleaving and split backwards shrink it; DualPipe "
        f"holds two copies of the parameters, {memory['dualpipe']:.0f} GiB, and updates both: "
        f"{step['dualpipe']:.0f} ms a step against {step['zb-v']:.0f} of ZB-V and {step['1f1b']:.0f} of 1F1B."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the schedules under each other on one time axis."""
    schedules = list(dict.fromkeys(frame["schedule"]))
    chart, grid = figure(
        "From naive to zero bubble: the same model and microbatches, ever less idle time",
        len(schedules), rows=len(schedules), height=9.0, sharex=True,
    )  # fmt: skip
    rest = frame[frame["schedule"] != "naive"]["step_ms"].max() * 1.06
    for axes, schedule in zip(grid, schedules, strict=True):
        part = frame[frame["schedule"] == schedule]
        _panel(axes, part, schedule, rest)
    grid[-1].set_xlabel("time (ms)", fontsize=9.5)
    _legend(chart)
    return chart


def _panel(axes: "Axes", part: pd.DataFrame, schedule: str, limit: float) -> None:
    step, bubble, memory = part.iloc[0][["step_ms", "bubble_fraction", "peak_memory_gib"]]
    chunks = int(part["chunk"].max()) + 1
    cut = f" (cut here; the step takes {step:.0f} ms)" if step > limit else ""
    axes.set_title(
        f"{schedule}: bubble {bubble:.0%}, peak {memory:.0f} GiB{cut}",
        loc="left",
        fontsize=9.5,
        pad=3,
    )
    axes.axhspan(0, STAGES, xmax=min(step / limit, 1.0), color=IDLE.colour, lw=0)
    for box in part.itertuples():
        start, end = float(str(box.start_ms)), min(float(str(box.end_ms)), limit)
        if start >= limit:
            continue
        phase = ACTION_PHASE[str(box.action)]
        halves = PAIR if str(box.action) == "F&B" else (phase,)
        for index, half in enumerate(halves):
            axes.barh(
                float(str(box.rank)) + 0.04 + 0.92 * (index + 0.5) / len(halves),
                end - start,
                0.92 / len(halves),
                start,
                color=shade(PHASES[half].colour, int(str(box.chunk)), chunks),
                edgecolor="white",
                lw=0.4,
            )
    axes.set_xlim(0, limit)
    axes.set_ylim(STAGES, 0)
    axes.set_yticks([r + 0.5 for r in range(STAGES)], [str(r) for r in range(STAGES)])
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.tick_params(left=False)
    axes.set_ylabel("rank", fontsize=9)


def _legend(chart: "Figure") -> None:
    from matplotlib.patches import Patch

    named = {
        "F": "forward",
        "B": "backward (whole, or input gradient)",
        "W": "weight gradient",
        "O": "optimizer",
    }
    handles = [Patch(color=PHASES[phase].colour, label=text) for phase, text in named.items()]
    handles.append(
        Patch(facecolor=IDLE.colour, edgecolor="#bbbbbb", label="idle; two tones: a pair")
    )
    chart.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8.5, frameon=False)


def main() -> None:
    """Write the answer into results."""
    write(__file__)
