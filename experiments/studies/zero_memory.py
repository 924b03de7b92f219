"""What does a device hold of a 7.5B model on 64 devices under each stage of ZeRO?

DDP does not fit, which is the point. Expected: 120, 31.4, 16.6 and 1.9 GB (Rajbhandari et al. 2020, figure 1; CS336
lecture 8), at 2 bytes of weights, 2 of gradients and 12 of optimizer state a parameter.
"""

from typing import TYPE_CHECKING

from experiments.study import claim, replay, write
from experiments.study_figure import figure, legend
from sim.palette import MEMORY
from sim.units import GB
from workloads.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MODEL, DEVICES = "megatron-gpt-7.5b", 64
NAMES = ("baseline", "ZeRO-1", "ZeRO-2", "ZeRO-3")
PAPER_GB = (120.0, 31.4, 16.6, 1.9)
TOLERANCE = 0.02
"""The paper's 7.5e9 is a round figure: the shape has 7.47e9 parameters, 7.68e9 with a head of its own."""
PARTS = ("parameters", "gradients", "optimizer")


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Lower and replay the four stages; what the first rank holds from the start."""
    import pandas as pd

    return pd.DataFrame([_row(zero) for zero in range(4)])


def _row(zero: int) -> dict[str, object]:
    plan = Plan(
        dp=DEVICES,
        zero=zero,
        global_batch=DEVICES,
        seq_len=2048,
        dtype="fp16",
        software="megatron-2021",
    )
    result = replay(MODEL, "a100-superpod", DEVICES, plan)
    held = result.timeline.program.scripts[0].memory
    return {
        "stage": NAMES[zero],
        **{f"{part}_GB": held[part] / GB for part in PARTS},
        "states_GB": sum(held[part] for part in PARTS) / GB,
        "paper_GB": PAPER_GB[zero],
        "peak_GB": max(peak.nbytes for peak in result.peaks) / GB,
    }


def check(frame: "pd.DataFrame") -> str:
    """States are the paper's within 2 %."""
    off = (frame.states_GB / frame.paper_GB - 1.0).abs().max()
    claim(off < TOLERANCE, f"off by {off:.3f}")
    got = " / ".join(f"{v:.3g}" for v in frame.states_GB)
    return (
        f"A 7.5B model on 64 devices holds {got} GB of states a device under DDP / ZeRO-1 / 2 / 3.\n"
        f"Held against: 120 / 31.4 / 16.6 / 1.9 GB (ZeRO paper, figure 1), within {TOLERANCE:.0%}; worst {off:.1%}."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Stack states by stage."""
    made, (axes,) = figure("Each stage of ZeRO shards the next part: 120 GB of states become 1.9")
    bottom = [0.0] * len(frame)
    for part in PARTS:
        values = list(frame[f"{part}_GB"])
        axes.barh(
            list(frame.stage), values, left=bottom, color=MEMORY[part], label=part, height=0.62
        )
        bottom = [b + v for b, v in zip(bottom, values, strict=True)]
    for i, (total, paper) in enumerate(zip(frame.states_GB, frame.paper_GB, strict=True)):
        axes.text(total + 1, i, f"{total:.3g} GB (paper {paper:g})", va="center", fontsize=9)
    axes.invert_yaxis()
    axes.axvline(80, color="#444444", linestyle="--", linewidth=1)
    axes.text(80.6, 3.42, "80 GB device", fontsize=8.5)
    axes.set_xlim(0, 150)
    axes.set_xlabel("GB a device, 64 devices, 16 bytes a parameter", fontsize=10)
    legend(axes, loc="center right")
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
