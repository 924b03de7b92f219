"""What does uneven routing cost a mixture of experts, and what does dropping tokens buy back?

8 layers of Qwen3 30B-A3B on 16 H100, EP 16; token shares by a power law from even to steep, dropless and with
capacity factors of 1.25 and 2 (dropped above, padded below). Expected: everybody waits for the rank with the fullest
experts, so time follows its load (the same extra share of the step for each extra share of load, within 15 %); a
capacity factor c costs what dropless routing costs where the fullest rank has c times the mean (within 6 points), and
quality, which is not modelled. Sources: the lecture; Fedus et al. 2021 (capacity factor); Wang et al. 2024 (arXiv
2408.15664, loads seen).
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.chart import figure, label, lines
from experiments.study import claim, write
from experiments.study_figure import legend
from experiments.trial import Row, numbers, trial
from workloads.models import model
from workloads.plan import Plan
from workloads.routing import expert_shares, rank_loads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, EP, LAYERS, SEQ_LEN = "qwen3-30b-a3b", "h100-fat-tree", 16, 8, 4096
STEEPNESS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.8)
CASES: dict[str, dict[str, Any]] = {
    "dropless": {}, "capacity 2": {"dropless": False, "capacity": 2.0, "pad_to_capacity": "on"},
    "capacity 1.25": {"dropless": False, "capacity": 1.25, "pad_to_capacity": "on"},
}  # fmt: skip


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every steepness under every rule."""
    rows = []
    shape = replace(model(MODEL), num_layers=LAYERS)
    for case, rule in CASES.items():
        for steep in STEEPNESS[:: 2 if quick else 1]:
            routing = f"zipf:{steep}" if steep else "uniform"
            plan = Plan(
                dp=EP, ep=EP, global_batch=2 * EP, seq_len=SEQ_LEN, zero=1, routing=routing, **rule
            )
            result = trial(shape, CLUSTER, plan)
            found = numbers(result)
            row: Row = {
                "case": case,
                "steepness": steep,
                "fullest_rank": fullest(routing, shape.num_experts),
            }
            waits = result.mean.get("wait.ep", 0.0) / found["step_time_s"]
            keys = ("step_time_s", "mfu", "peak_memory_gib")
            rows.append(row | {"waiting_share": waits, **{key: found[key] for key in keys}})
    return pd.DataFrame(rows)


def fullest(routing: str, num_experts: int) -> float:
    """Return the load of the fullest rank over the mean, averaged over the layers."""
    shares = [expert_shares(routing, num_experts, layer) for layer in range(LAYERS)]
    return sum(max(load.here for load in rank_loads(part, EP)) for part in shares) / LAYERS


def check(frame: pd.DataFrame) -> str:
    """Time follows the fullest rank's load; a capacity factor is such a load at most."""
    free = frame[frame["case"] == "dropless"].set_index("steepness")
    tight = frame[frame["case"] == "capacity 1.25"].set_index("steepness")
    claim((free["step_time_s"].diff().dropna() > 0).all(), "each step of skew should cost time")
    claim(
        free["waiting_share"].iloc[-1] > free["waiting_share"].iloc[0],
        "skew should make ranks wait",
    )
    claim(
        free["peak_memory_gib"].iloc[-1] > free["peak_memory_gib"].iloc[0],
        "skew should cost memory",
    )
    claim(
        tight["step_time_s"].iloc[-1] < free["step_time_s"].iloc[-1],
        "a capacity should limit the step",
    )
    loads = free["fullest_rank"].iloc[1:] - 1
    rate = (free["step_time_s"].iloc[1:] / free["step_time_s"].iloc[0] - 1) / loads
    spread = (rate / rate.mean() - 1).abs().max()
    claim(spread < 0.15, f"time does not follow load: {spread:.2f} off a line")
    for rule in ("capacity 1.25", "capacity 2"):
        step = frame[frame["case"] == rule]["step_time_s"].max() / free["step_time_s"].iloc[0] - 1
        line = rate.mean() * (float(CASES[rule]["capacity"]) - 1)
        claim(abs(step - line) < 0.06, f"{rule} costs {step:.2f}, dropless at that load {line:.2f}")
    last = free.index.max()
    slower = free["step_time_s"][last] / free["step_time_s"][0.0] - 1
    held = tight["step_time_s"][last] / free["step_time_s"][0.0] - 1
    return (
        f"With the fullest rank at {free['fullest_rank'][last]:.1f} times the mean the step takes {slower:.0%} longer "
        f"and {free['peak_memory_gib'][last] / free['peak_memory_gib'][0.0] - 1:.0%} more memory.\n"
        f"The step grows by {rate.mean():.2f} of the extra load, within {spread:.0%}; a capacity of 1.25 limits it to "
        f"{held:.0%}, by dropping tokens."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the step and the waiting over the load of the fullest rank."""
    chart, (left, right) = figure(
        "Everybody waits for the fullest expert; a capacity factor bounds the wait", 2
    )
    even = frame[frame["steepness"] == 0.0]["step_time_s"].iloc[0]
    named = frame.assign(slower=frame["step_time_s"] / even - 1)
    lines(left, named, "fullest_rank", "slower", "case")
    lines(right, named, "fullest_rank", "waiting_share", "case")
    for axes, y in (
        (left, "step longer than with even routing"),
        (right, "waiting for peers, share of the step"),
    ):
        axes.yaxis.set_major_formatter("{x:.0%}")
        label(axes, "load of the fullest rank over the mean", y)
    legend(left)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
