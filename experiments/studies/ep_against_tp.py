"""Should experts be spread over a host whole (expert parallel) or in slices (tensor parallel)?

8 layers of Mixtral 8x7B (8 wide experts) and of Qwen3 30B-A3B (128 narrow ones) on 8 H100, attention data parallel;
every split of the experts with ep x etp = 8. Expected: EP is better, its products stay wide and each token travels
once a choice; slices gather all tokens everywhere, the more the finer the experts. The sources give the order, no
number; so does the check. Source: the lecture; Megatron-Core MoE guide.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure, label
from experiments.study import claim, write
from experiments.study_figure import bars, legend
from experiments.trial import Row, numbers, trial
from sim.metrics import communication_volume
from sim.program import Compute
from sim.timeline import Timeline
from sim.units import GB, ms
from workloads.models import model
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLUSTER, N, LAYERS, SEQ_LEN, MICROBATCHES = "h100-fat-tree", 8, 8, 4096, 4
MODELS = {
    "mixtral-8x7b": "Mixtral 8x7B: 8 experts of 14,336",
    "qwen3-30b-a3b": "Qwen3 30B-A3B: 128 experts of 768",
}
SPLITS = ((8, 1), (4, 2), (2, 4), (1, 8))


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every split of both models."""
    rows = []
    for name in list(MODELS)[: 1 if quick else None]:
        shape = replace(model(name), num_layers=LAYERS)
        for ep, etp in SPLITS:
            plan = Plan(
                dp=N, ep=ep, etp=etp, global_batch=N * MICROBATCHES, seq_len=SEQ_LEN, zero=1
            )
            result = trial(shape, CLUSTER, plan)
            found, step = numbers(result), result.timeline.step_time
            sent = communication_volume(result.timeline, 0)
            row: Row = {"model": name, "ep": ep, "etp": etp, "mfu": found["mfu"], "step_ms": step / ms,
                        "expert_gemm_ms": products(result.timeline) / ms}  # fmt: skip
            for axis in ("ep", "etp"):
                row[f"{axis}_sent_gb"] = sent.get(axis, 0.0) / GB
                row[f"{axis}_exposed_ms"] = result.mean.get(f"exposed.{axis}", 0.0) / ms
            rows.append(row)
    return pd.DataFrame(rows)


def products(timeline: Timeline) -> float:
    """Return seconds of the experts' grouped products on a rank."""
    return sum(
        span.end - span.start
        for span in timeline.spans(0)
        if isinstance(span.op, Compute) and span.op.name.startswith(("expert_up", "expert_down"))
    )


def check(frame: pd.DataFrame) -> str:
    """EP is fastest, moves least and computes its products fastest; fine experts suffer most from slices."""
    gains = {}
    for name, part in frame.groupby("model", sort=False):
        row = part.set_index("etp")
        claim(row["mfu"].idxmax() == 1, "EP should be fastest")
        claim((row["mfu"].diff().dropna() < 0).all(), "each step from EP to ETP should be slower")
        claim(row["ep_sent_gb"][1] < row["etp_sent_gb"][8], "EP should send less than slices")
        claim(
            row["expert_gemm_ms"][1] < row["expert_gemm_ms"][8],
            "whole experts should compute faster than slices",
        )
        gains[name] = (row["mfu"][1] / row["mfu"][8], row["etp_sent_gb"][8] / row["ep_sent_gb"][1],
                       row["expert_gemm_ms"][8] / row["expert_gemm_ms"][1])  # fmt: skip
    if len(gains) > 1:
        claim(
            gains["qwen3-30b-a3b"][0] > gains["mixtral-8x7b"][0],
            "the finer experts should gain more",
        )
    text = "; ".join(f"{name} {speed:.2f} times faster" for name, (speed, _, _) in gains.items())
    bytes_, gemm = (", ".join(f"{gain[i]:.1f}" for gain in gains.values()) for i in (1, 2))
    return (
        f"Whole experts (EP = 8) beat slices (ETP = 8) on the same host: {text}.\n"
        f"Slices send {bytes_} times the bytes, and their narrower products take {gemm} times as long"
        " (in the same order)."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the step by split: expert products, exposed exchange, the rest."""
    chart, panels = figure(
        "Whole experts beat slices of experts, and the finer the experts the more",
        len(set(frame["model"])),
    )
    for axes, (name, part) in zip(panels, frame.groupby("model", sort=False), strict=True):
        names = [f"EP {e}\nETP {t}" for e, t in zip(part["ep"], part["etp"], strict=True)]
        exposed = part["ep_exposed_ms"] + part["etp_exposed_ms"]
        groups = [("whole step", list(part["step_ms"])), ("exposed exchange of tokens", list(exposed)),
                  ("experts' products", list(part["expert_gemm_ms"]))]  # fmt: skip
        bars(axes, names, groups, text="%.0f")
        label(axes, "", "ms a step", MODELS[str(name)])
        axes.margins(y=0.18)
    legend(panels[0], loc="upper left")
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
