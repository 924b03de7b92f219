"""How close is the replay to Llama 3 405B's three published stages, and what would one changed knob do?

8,192 and 16,384 H100 at 8K tokens and 16,384 at 131K, the published degrees, the even layout of 126 layers and two
ends. Expected: within 15 % of the published 430, 400 and 380 TFLOP/s a device, 41 % MFU and about. Chunks, microbatch
and recompute are not published. Source: The Llama 3 Herd of Models (arXiv 2407.21783), table 4 and section 3.3.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.case import AS_RUN, Case, case_figure, case_rows, preset_case, unfit
from experiments.study import claim, write
from sim.units import TERA
from workloads.step_flops import model_flops

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGES: dict[str, tuple[str, float, dict[str, dict[str, Any]]]] = {
    "8K on 8,192": ("llama3-405b-8192", 430, {}),
    "8K on 16,384": ("llama3-405b", 400, {
        "4 chunks, not 8": {"chunks": 4}, "1 chunk (1F1B)": {"chunks": 1, "schedule": "1f1b"},
        "gather twice (reshard)": {"reshard": True}, "full recompute": {"recompute": "full"},
        "ZeRO-1": {"zero": 1, "reshard": True},
        "TP = 16, PP = 8": {"tp": 16, "pp": 8},
    }),
    "131K on 16,384": ("llama3-405b-131k", 380, {"CP as a ring": {"context": "ring"}}),
}  # fmt: skip
"""Run preset, published TFLOP/s a device, and the knobs."""


def cases() -> list[Case]:
    """Return the three stages; the published step time follows from the published TFLOP/s."""
    found = []
    for name, (preset, tflops, knobs) in STAGES.items():
        case = preset_case(name, preset, source="arXiv 2407.21783 v3, table 4", knobs=knobs)
        plan = case.config.plan
        flops = model_flops(case.config.model, plan)["full"]
        found.append(replace(case, published_s=flops / (tflops * TERA * plan.num_devices)))
    return found


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay the stages, and the knobs."""
    return pd.DataFrame(case_rows(cases(), quick=quick))


def check(frame: pd.DataFrame) -> str:
    """Each stage within 15 % of the published step time; fewer chunks, reshard and recompute cost time."""
    stages = frame[frame["variant"] == AS_RUN]
    off = stages["step_time_s"] / stages["published_s"] - 1
    claim(off.abs().max() < 0.15, f"off by {off.abs().max():.1%}, over 15 %")
    shown = ", ".join(f"{r.case}: {r.tflops_per_device:.0f}" for r in stages.itertuples())
    base = stages.set_index("case")["step_time_s"]
    turned = {
        str(r.variant): float(str(r.step_time_s)) / base[r.case] - 1 for r in frame.itertuples()
    }
    if "1 chunk (1F1B)" in turned:
        claim(
            turned["1 chunk (1F1B)"] > turned["4 chunks, not 8"] > 0,
            "fewer chunks should cost time, one the most",
        )
        claim(turned["full recompute"] > 0.1, "full recompute should cost over 10 %")
        claim(turned["TP = 16, PP = 8"] > 0, "TP = 16 should cost time")
    knob = max(turned, key=lambda name: abs(turned[name]))
    return (
        f"Replayed {shown} TFLOP/s a device; published 430, 400, 380: step times off by "
        f"{', '.join(f'{o:+.0%}' for o in off)}.\nThe knob that matters most: {knob}, {turned[knob]:+.0%}; "
        f"{unfit(frame)}."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the stages and the knobs."""
    return case_figure(
        frame, "Llama 3 405B: three published stages replayed, and what one knob would change"
    )


def main() -> None:
    """Write the answer into results."""
    write(__file__)
