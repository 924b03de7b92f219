"""How does a rank's memory move over a training step?

Llama 2 7B, fully sharded over 8 A100-80, one microbatch of 2 sequences of 4,096. Expected: constant states,
activations that rise through the forward pass, a peak at the turn (logits and the first layers of the backward), and
a fall back; recompute cuts the hill to a ridge. Source: the lecture; Rajbhandari et al. 2020, section 3.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.chart import figure, label
from experiments.study import claim, write
from experiments.study_figure import GREY, legend
from experiments.trial import trial
from sim.memory import memory_curve
from sim.palette import memory_colours
from sim.program import Compute
from sim.timeline import Timeline, each_span
from sim.units import GiB, ms
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, DEVICES, SEQ_LEN, MICROBATCH = "llama2-7b", "a100-superpod", 8, 4096, 2
RECOMPUTE = ("none", "full")
POINTS = 400
"""Instants a curve is sampled at; each shows the most held since the one before."""


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay a step with and without recompute; a row an instant and category."""
    rows = []
    for recompute in RECOMPUTE[: 1 if quick else None]:
        plan = Plan(dp=DEVICES, zero=3, microbatch=MICROBATCH, global_batch=DEVICES * MICROBATCH, seq_len=SEQ_LEN,
                    recompute=recompute, software="torch-fsdp")  # fmt: skip
        timeline = trial(MODEL, CLUSTER, plan).timeline
        turn = first_backward(timeline)
        for when, category, held in sampled(timeline):
            rows.append(
                (recompute, when / ms, timeline.step_time / ms, turn / ms, category, held / GiB)
            )
    return pd.DataFrame(
        rows, columns=["recompute", "time_ms", "step_ms", "turn_ms", "category", "held_gib"]
    )


def first_backward(timeline: Timeline) -> float:
    """Return when the first kernel of a backward starts (s)."""
    return min(
        span.start
        for stream in timeline.streams
        for span in each_span(stream)
        if isinstance(span.op, Compute) and span.op.phase in ("B", "W", "R")
    )


def sampled(timeline: Timeline) -> list[tuple[float, str, float]]:
    """Return (time, category, bytes) at the fullest moment of each of `POINTS` slices of the step."""
    curve = memory_curve(timeline, 0)
    slices = np.minimum(curve.time / timeline.step_time * POINTS, POINTS - 1).astype(int)
    found = []
    for number in np.unique(slices):
        inside = np.flatnonzero(slices == number)
        at = inside[curve.total[inside].argmax()]
        found += [
            (float(curve.time[at]), c, float(h))
            for c, h in zip(curve.categories, curve.held[at], strict=True)
        ]
    return found


def check(frame: pd.DataFrame) -> str:
    """Memory peaks just after the turn and ends with the states alone; recompute flattens it."""
    found = {}
    for recompute, part in frame.groupby("recompute", sort=False):
        total = part.groupby("time_ms")["held_gib"].sum()
        step, turn = part["step_ms"].iloc[0], part["turn_ms"].iloc[0]
        peak = float(total.idxmax())
        claim(
            -0.02 * step <= peak - turn <= 0.15 * step,
            "the peak should stand at the turn from forward to backward",
        )
        claim(
            0.7 * total.iloc[0] < total.iloc[-1] <= total.iloc[0],
            "the step should end with what it began with",
        )
        found[recompute] = (float(total.max()), peak / step, turn / step, float(total.iloc[-1]))
    most, at, turn, floor = found["none"]
    line = f"With recompute the peak is {found['full'][0]:.0f} GiB." if "full" in found else ""
    return (
        f"From {floor:.0f} GiB of states memory climbs to {most:.0f} GiB at {at:.0%} of the step, just after backward "
        f"starts ({turn:.0%}), and falls back. {line}\nActivations rise layer by layer; the logits and the first "
        "layers of the backward make the peak, as the lecture says."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the stacked curves, with and without recompute."""
    kinds = list(dict.fromkeys(frame["recompute"]))
    chart, panels = figure(
        "Memory climbs through the forward pass and peaks as backward begins",
        len(kinds),
        sharey=True,
    )
    for axes, kind in zip(panels, kinds, strict=True):
        part = frame[frame["recompute"] == kind]
        table = part.pivot_table(
            index="time_ms", columns="category", values="held_gib", aggfunc="max"
        )
        colours = memory_colours(table.columns)
        shown = [c for c in colours if table[c].max() > 0.01]
        axes.stackplot(
            table.index,
            [table[c] for c in shown],
            colors=[colours[c] for c in shown],
            labels=shown,
            step="post",
        )
        axes.axvline(part["turn_ms"].iloc[0], color=GREY, ls="--", lw=1.2)
        axes.text(
            part["turn_ms"].iloc[0],
            1.0,
            " backward starts",
            transform=axes.get_xaxis_transform(),
            va="top",
            fontsize=8.5,
        )
        title = {"none": "all activations kept", "full": "full recompute"}[kind]
        label(axes, "time (ms)", "live memory of a rank (GiB)" if axes is panels[0] else "", title)
        axes.set_xlim(0, part["step_ms"].iloc[0])
    panels[0].margins(y=0.12)
    legend(panels[-1], loc="upper right", reverse=True)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
