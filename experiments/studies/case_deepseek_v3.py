"""How close is the replay to DeepSeek-V3's training step, and which of its choices carries it?

2,048 H800, PP 16, EP 64, ZeRO-1, no TP, DualPipe, FP8; expert exchange by DeepEP in FP8, a forward's exchange under a
backward. Expected: within 20 % of the published 19.93 s; on one-sided schedules, which pair no forward with a
backward, the exchange shows. Sources: Insights into DeepSeek-V3 (ISCA 25), table 4; DeepSeek-V3 report, sections 3.2
and 3.3 (microbatch of 1 assumed).
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.case import AS_RUN, Case, case_figure, case_rows
from experiments.study import write
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DUALPIPE: dict[str, Any] = {
    "pp": 16, "ep": 64, "dp": 128, "schedule": "dualpipe", "global_batch": 15360, "seq_len": 4096, "zero": 1,
    "dtype": "fp8", "dispatcher": "deepep", "dispatch_dtype": "fp8", "mtp": True, "comm_sms": 20,
    "recompute": "selective", "recompute_modules": ("mla_up_proj", "norm"),
    "layout": (4,) * 14 + (3, 2),
}  # fmt: skip
KNOBS: dict[str, dict[str, Any]] = {
    "exchange in BF16": {"dispatch_dtype": ""},
    "plain all-to-all, no DeepEP": {"dispatcher": "alltoall"},
    "BF16 products": {"dtype": "bf16"},
    "EP = 8 (a host)": {"ep": 8},
    "1F1B": {"schedule": "1f1b"},
    "ZB-H1": {"schedule": "zb-h1"},
}
CASE = Case(
    name="DeepSeek-V3", model="deepseek-v3", cluster="h800-fat-tree", plan=Plan(**DUALPIPE), published_s=19.926,
    source="ISCA 25, table 4", assumed="microbatch 1; layout 14 x 4, 3, 2 layers; moments in FP32 (theirs in BF16)",
    knobs=KNOBS,
)  # fmt: skip


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay the step as run, and the knobs."""
    return pd.DataFrame(case_rows([CASE], quick=quick))


def check(frame: pd.DataFrame) -> str:
    """Within 25 % of the published step; pairing, DeepEP and FP8 carry it."""
    time = frame.set_index("variant")["step_time_s"]
    off = time[AS_RUN] / CASE.published_s - 1
    assert abs(off) < 0.25
    turned = (time / time[AS_RUN] - 1).drop(AS_RUN)
    if len(turned):
        assert turned["1F1B"] > 0.3
        assert turned["plain all-to-all, no DeepEP"] > 0.1
        assert turned["BF16 products"] > 0.05
    worst = ", ".join(
        f"{name} {change:+.0%}" for name, change in turned.sort_values()[::-1].head(3).items()
    )
    row = frame.set_index("variant").loc[AS_RUN]
    return (
        f"Replayed {time[AS_RUN]:.1f} s, published {CASE.published_s:.1f} s ({off:+.0%}): "
        f"{row['tflops_per_device']:.0f} model TFLOP/s a device, published 432.\n"
        f"What carries it, by what the step costs without: {worst}."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the step and the knobs."""
    return case_figure(
        frame,
        "DeepSeek-V3: pairing forwards with backwards hides the exchange and carries the plan",
        height=4.0,
    )


def main() -> None:
    """Write the answer into results."""
    write(__file__)
