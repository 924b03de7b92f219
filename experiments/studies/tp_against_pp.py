"""What do tensor and pipeline parallelism cost against each other: volume, bubble, links?

GPT-3 13B on 8 A100, all in one host or one in each of 8 hosts, TP = 8 or PP = 8, 8 and 32 microbatches; volumes are
added up from the replay's spans. Expected: TP sends 8bsh(n-1)/n values a layer (4 all-reduces) and has no bubble, PP
sends bsh a boundary each way and idles (p-1)/(m+p-1), and more where a stage (here the last, with the head) takes
longer than the mean: 1 - m / (m s + p - 1), s its time over the mean; TP needs the host, PP does not mind. Source:
the lecture.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.chart import figure, label
from experiments.simulation import Result
from experiments.study import claim, write
from experiments.study_figure import bars, legend
from experiments.trial import Row, numbers, trial
from sim.metrics import communication_volume
from sim.timeline import Timeline
from sim.units import GB
from workloads.models import model
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, N, SEQ_LEN = "gpt3-13b", "a100-superpod", 8, 2048
PLACES: dict[str, dict[str, Any]] = {
    "one host (NVLink)": {},
    "8 hosts (InfiniBand)": {"used_per_domain": 1},
}
STRATEGIES: dict[str, dict[str, Any]] = {"TP": {"tp": N}, "PP": {"pp": N}}
MICROBATCHES = (8, 32)
BUBBLE_POINTS = 0.02
"""Most that a bubble may differ from its formula, as a share of the step."""


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay both, in a host and across hosts."""
    rows = []
    for kind, degrees in STRATEGIES.items():
        for place, parameters in PLACES.items():
            for m in MICROBATCHES[: 1 if quick else None]:
                result = trial(
                    MODEL, CLUSTER, Plan(global_batch=m, seq_len=SEQ_LEN, **degrees), **parameters
                )
                found = numbers(result)
                row: Row = {"strategy": f"{kind} = {N}", "links": place, "microbatches": m,
                            "sent_gb": volume(result.timeline) / GB, "expected_gb": expected(kind, m) / GB,
                            "expected_bubble": expected_bubble(result, m)}  # fmt: skip
                keys = (
                    "tflops_per_device",
                    "bubble_fraction",
                    "exposed_fraction",
                    "peak_memory_gib",
                )
                rows.append(row | {key: found[key] for key in keys})
    return pd.DataFrame(rows)


def volume(timeline: Timeline) -> float:
    """Return bytes the busiest rank sends over tp or to its pipeline neighbours."""
    each = [communication_volume(timeline, c) for c in range(timeline.num_classes)]
    return max(sum(v for axis, v in sent.items() if axis.startswith(("tp", "pp"))) for sent in each)


def expected_bubble(result: Result, microbatches: int) -> float:
    """Return the idle share of stages that compute for unequal times; (p-1)/(m+p-1) where they are equal."""
    timeline = result.timeline
    busy = {timeline.place(c): part["compute"] for c, part in enumerate(result.parts)}
    slowest = max(busy.values()) / (sum(busy.values()) / len(busy))
    return 1 - microbatches / (microbatches * slowest + len(busy) - 1)


def expected(kind: str, microbatches: int) -> float:
    """Return the lecture's volume: 8bsh(n-1)/n values a layer, or bsh each way; 2 bytes a value."""
    shape = model(MODEL)
    bsh = microbatches * SEQ_LEN * shape.hidden_size * 2.0
    return bsh * (8 * (N - 1) / N * shape.num_layers if kind == "TP" else 2.0)


def check(frame: pd.DataFrame) -> str:
    """Volumes and bubbles are the formulas; TP has no bubble; leaving the host halves TP and leaves PP alone."""
    claim(
        ((frame["sent_gb"] / frame["expected_gb"] - 1).abs() < 0.06).all(),
        "volumes are off the formulas by over 6 %",
    )
    rows = frame[frame["microbatches"] == frame["microbatches"].max()].set_index(
        ["strategy", "links"]
    )
    near, far = PLACES
    tp, pp = rows.loc[f"TP = {N}"], rows.loc[f"PP = {N}"]
    claim(tp["bubble_fraction"].max() == 0, "TP should have no bubble")
    off = (frame["bubble_fraction"] - frame["expected_bubble"]).abs().max()
    claim(off < BUBBLE_POINTS, f"a bubble is {off:.3f} off its formula")
    most = frame["microbatches"].max()
    even = (N - 1) / (most + N - 1)
    claim(
        tp.loc[far, "tflops_per_device"] < 0.5 * tp.loc[near, "tflops_per_device"],
        "TP should lose half across hosts",
    )
    claim(
        pp.loc[far, "tflops_per_device"] > 0.95 * pp.loc[near, "tflops_per_device"],
        "PP should keep 95 % across hosts",
    )
    speed = {(kind, place): rows.loc[place, "tflops_per_device"]
             for kind, rows in (("TP", tp), ("PP", pp)) for place in PLACES}  # fmt: skip
    ratio = tp["sent_gb"].iloc[0] / pp["sent_gb"].iloc[0]
    return (
        f"TP sends {ratio:.0f} times the bytes of PP and has no bubble; across hosts it drops from "
        f"{speed['TP', near]:.0f} to {speed['TP', far]:.0f} TFLOP/s a device, PP from {speed['PP', near]:.0f} to "
        f"{speed['PP', far]:.0f}.\nFrom the spans: 8bsh(n-1)/n a layer for TP (+6 % at most, embedding and head) and "
        f"bsh each way for PP. PP idles {pp['bubble_fraction'][near]:.1%} at m = {most}: (p-1)/(m+p-1) is "
        f"{even:.1%}, the "
        f"rest is the last stage, which has the head; with it the formula is met within {off:.1%}."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw volume, bubble and throughput, in the host and across hosts."""
    chart, panels = figure(
        "TP inside the host, PP across: one pays in bytes, the other in idle time", 3, height=4.2
    )
    top = frame["microbatches"].max()
    part = frame[frame["microbatches"] == top]
    names = list(dict.fromkeys(part["strategy"]))
    charts: tuple[tuple[str, str, Any], ...] = (
        ("sent_gb", "GB a rank sends a step", "%.3g"),
        ("bubble_fraction", "bubble, share of the step", "{:.0%}".format),
        ("tflops_per_device", "model TFLOP/s a device", "%.0f"),
    )
    for axes, (column, text, form) in zip(panels, charts, strict=True):
        groups = [(place, list(rows[column])) for place, rows in part.groupby("links", sort=False)]
        bars(axes, names, groups, text=form)
        label(axes, f"{top} microbatches", text)
        axes.margins(y=0.22)
    panels[0].set_yscale("log")
    panels[1].yaxis.set_major_formatter("{x:.0%}")
    legend(panels[2], loc="upper left", fontsize=8)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
