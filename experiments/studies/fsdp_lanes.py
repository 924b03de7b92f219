"""Where do FSDP's three lanes (host, compute, communication) wait for each other?

Expected: with a large model the host runs ahead, parameters are gathered one layer before they are needed, and only the
first gather and the last reduction show; a model whose kernels are shorter than a launch waits for the host (FSDP
paper, 2304.11277, figure 5; CS336 lecture 8). At the 5 us a bare eager operation costs, kernels of a small model,
3 to 13 us each, still run longer than that: what shows there is the latency of its gathers. So the host is varied too.
"""

from typing import TYPE_CHECKING

from experiments.simulation import Result
from experiments.study import claim, replay, write
from experiments.study_figure import figure
from sim.palette import HOST_HUE, PHASES, axis_hue
from sim.program import Collective, Compute
from sim.units import ms, us
from workloads.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEVICES = 8
CASES = {"llama3-8b": 4096, "gpt3-125m": 512}
"""Model and tokens a device: eager FSDP on one host of 8 H100, one sequence each."""
LAUNCHES_US = (2.5, 5.0, 10.0, 20.0, 40.0)
"""Host time of a kernel: 5 a bare operation, 10 the eager profile's; 20 and more is a slow or shared host."""
BARE_US, SLOW_US = 5.0, 20.0
SHOWN = 0.16
HUES = (axis_hue("dp").colour, PHASES["F"].colour, HOST_HUE.colour)
Interval = tuple[float, float]


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Replay a large and a small model at several host speeds; the ledger of each."""
    import pandas as pd

    hosts = (BARE_US, SLOW_US) if quick else LAUNCHES_US
    return pd.DataFrame([_row(name, host) for name in CASES for host in hosts])


def _replayed(name: str, launch_us: float, *, merged: bool) -> Result:
    plan = Plan(
        dp=DEVICES, zero=3, global_batch=DEVICES, seq_len=CASES[name], software="torch-fsdp"
    )
    return replay(name, "h100-host", DEVICES, plan, merged=merged, launch=launch_us * us)


def _row(name: str, launch_us: float) -> dict[str, object]:
    result = _replayed(name, launch_us, merged=True)
    step, mean = result.timeline.step_time, result.mean
    summary = result.summary()
    return {
        "model": name,
        "tokens_per_device": CASES[name],
        "launch_us": launch_us,
        "step_ms": step / ms,
        "compute_share": (mean["compute"] + mean["optimizer"]) / step,
        "launch_share": mean.get("launch", 0.0) / step,
        "exposed_share": mean.get("exposed.dp", 0.0) / step,
        "slowdown_share": mean.get("overlap_slowdown", 0.0) / step,
        "overlap": summary["overlap_fraction"],
        "mfu": summary["mfu"],
    }


def check(frame: "pd.DataFrame") -> str:
    """The large model never waits for the host; the small one does once a launch outlasts its kernels."""
    table = frame.set_index(["model", "launch_us"])
    large, small = (table.loc[name, SLOW_US] for name in CASES)
    normal, profile = (table.loc[name, BARE_US] for name in CASES)
    hidden = normal.overlap
    claim(large.launch_share < 0.01, f"large model launch-bound: {large.launch_share:.2f}")
    claim(hidden > 0.85, f"large model hides {hidden:.2f} of its communication")
    claim(small.launch_share > 0.3, f"small model launch share {small.launch_share:.2f}")
    claim(profile.launch_share < 0.05, "a step without launch gaps should not wait for the host")
    claim(profile.exposed_share > 0.1, "FSDP's communication should show at the profile's batch")
    return (
        f"llama3-8b hides {hidden:.0%} of its gathers and reductions and waits for the host {large.launch_share:.1%} "
        f"even at 20 us a kernel; gpt3-125m waits {small.launch_share:.0%} of the step then, at 5 us "
        f"{profile.launch_share:.1%}: there its gathers show ({profile.exposed_share:.0%}).\n"
        "Held against: under 1 % and over 30 % launch at 20 us, 85 % of communication hidden. The lecture's "
        "launch-bound small model needs a launch longer than its 3 to 13 us kernels, not the 5 us of a bare operation."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw the three lanes of the first part of a step of each."""
    made, charts = figure(
        "A large model hides both host and network; a small one waits for the slow host",
        2,
        rows=2,
        height=5.2,
    )
    for axes, name in zip(charts, CASES, strict=True):
        result = _replayed(name, SLOW_US, merged=False)
        row = frame[(frame.model == name) & (frame.launch_us == SLOW_US)].iloc[0]
        _lanes(axes, result, SHOWN * result.timeline.step_time)
        axes.set_title(
            f"{name}, {row.tokens_per_device:,} tokens a device, {SLOW_US:g} us a launch; waits in a step of "
            f"{row.step_ms:.0f} ms: {row.launch_share:.0%} for launches, {row.exposed_share:.0%} for communication",
            fontsize=9.5,
            loc="left",
        )
    charts[-1].set_xlabel(f"ms (the first {SHOWN:.0%} of the step)", fontsize=10)
    _legend(charts[0])
    return made


def _lanes(axes: "Axes", result: Result, until: float) -> None:
    """Draw host, compute and communication of rank 0 up to a time."""
    kernels: list[Interval] = []
    gathers: list[Interval] = []
    launches: list[Interval] = []
    clock = 0.0
    for op, _, _, start, end in result.timeline.spans(0):
        if isinstance(op, Compute):
            launches.append((clock, SLOW_US * us * op.launches))
            clock += SLOW_US * us * op.launches
            kernels.append((start, end - start))
        elif isinstance(op, Collective):
            gathers.append((start, end - start))
    for lane, (bars, hue) in enumerate(zip((gathers, kernels, launches), HUES, strict=True)):
        shown = [(start / ms, seconds / ms) for start, seconds in bars if start < until]
        axes.broken_barh(
            shown, (lane - 0.36, 0.72), facecolor=hue, edgecolor="white", linewidth=0.2
        )
    axes.set_yticks([0, 1, 2], ["communication", "compute", "host"])
    axes.set_xlim(0, until / ms)
    axes.grid(visible=False)


def _legend(axes: "Axes") -> None:
    from matplotlib.patches import Patch

    names = ("all-gather of a layer", "forward kernels", "launch of a kernel")
    marks = [Patch(color=hue, label=name) for hue, name in zip(HUES, names, strict=True)]
    axes.legend(
        handles=marks,
        fontsize=8.5,
        ncols=3,
        frameon=False,
        loc="upper right",
        bbox_to_anchor=(1, -0.08),
    )


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
