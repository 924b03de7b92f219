"""What does a layer keep for its backward, and what do TP, sequence parallelism and recompute take off it?

GPT-3 layers (h = 12,288, a = 96 heads, s = 2,048) with unfused attention and dropout, replayed with 2 and with 3
layers; the difference is a layer. Expected, in units of sbh bytes: 34 + 5as/h; with TP 10 + 24/t + 5as/ht; with
sequence parallelism all of it over t; without the attention core 34/t; a checkpoint 2. Source: Korthikanti et al.
2022, section 4 and table 2.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.chart import figure, label, stacked
from experiments.study import claim, write
from experiments.study_figure import SERIES, legend
from experiments.trial import megatron_gpt, trial
from sim.memory import memory_curve
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLUSTER, HIDDEN, HEADS, SEQ_LEN, T = "a100-superpod", 12288, 96, 2048, 8
ATTENTION = 5 * HEADS * SEQ_LEN / HIDDEN
"""5as/h: scores, softmax and its dropout mask."""
LADDER: dict[str, tuple[dict[str, Any], tuple[float, float, float]]] = {
    "one device": ({}, (10, 24, ATTENTION)),
    f"TP = {T}": ({"tp": T}, (10, 24 / T, ATTENTION / T)),
    "TP + SP": ({"tp": T, "sequence_parallel": True}, (10 / T, 24 / T, ATTENTION / T)),
    "TP + SP, selective\nrecompute": (
        {"tp": T, "sequence_parallel": True, "recompute": "selective"}, (10 / T, 24 / T, 0),
    ),
    "TP, full recompute": ({"tp": T, "recompute": "full"}, (2, 0, 0)),
    "TP + SP, full\nrecompute": ({"tp": T, "sequence_parallel": True, "recompute": "full"}, (2 / T, 0, 0)),
}  # fmt: skip
"""Steps: the plan, and its terms outside tensor-parallel regions, inside them, of the attention core."""
TERMS = {
    "norms, dropout, inputs": SERIES[1],
    "inside TP regions": SERIES[0],
    "attention core": SERIES[4],
}


def run(*, quick: bool = False) -> pd.DataFrame:
    """Measure each step of the ladder on the replay's memory curve."""
    rows = []
    for name, (changes, terms) in list(LADDER.items())[: 3 if quick else None]:
        few, more = (held(layers, changes) for layers in (2, 3))
        measured = (more - few) / (SEQ_LEN * HIDDEN)
        parts = dict(zip(TERMS, terms, strict=True))
        rows.append(
            {
                "plan": name.replace("\n", " "),
                "measured_sbh": measured,
                "formula_sbh": sum(terms),
                **parts,
            }
        )
    return pd.DataFrame(rows)


def held(layers: int, changes: dict[str, Any]) -> float:
    """Return the most activation bytes a rank holds during a step of so many layers."""
    plan = Plan(
        global_batch=1,
        seq_len=SEQ_LEN,
        dtype="fp16",
        dropout=True,
        software="megatron-2022",
        **changes,
    )
    curve = memory_curve(trial(megatron_gpt(layers, HIDDEN, HEADS), CLUSTER, plan).timeline, 0)
    return float(curve.held[:, curve.categories.index("activations")].max())


def check(frame: pd.DataFrame) -> str:
    """Every step is the formula to a thousandth."""
    claim(
        ((frame["measured_sbh"] / frame["formula_sbh"] - 1).abs() < 1e-3).all(),
        "a layer's activations are not the formula's to 1 per mille",
    )
    row = frame.set_index("plan")["measured_sbh"]
    return (
        f"A layer keeps {row['one device']:.0f} sbh bytes; TP = {T} leaves {row[f'TP = {T}']:.0f}, of which 10 are not "
        f"split; sequence parallelism splits them: {row['TP + SP']:.2f}.\n"
        "Every rung of the replay equals the formula of Korthikanti et al. (table 2) to 0.1 %; dropping the attention "
        "core alone brings 34/t = 4.25."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the ladder as stacked bars, once whole and once from the second rung on."""
    chart, (left, right) = figure(
        "Activations of a layer: 114 sbh bytes become 4.25, rung by rung", 2, height=4.4
    )
    breaks = {"TP + SP, selective recompute": "TP + SP,\nselective", "TP, full recompute": "TP,\nfull",
              "TP + SP, full recompute": "TP + SP,\nfull"}  # fmt: skip
    for axes, part, title in ((left, frame, "all"), (right, frame[1:], f"from TP = {T} on")):
        names = [
            breaks.get(name, name.replace(" ", "\n", 1) if name == "one device" else name)
            for name in part["plan"]
        ]
        stacked(axes, names, {term: list(part[term]) for term in TERMS}, TERMS)
        for x, value in enumerate(part["measured_sbh"]):
            axes.text(x, value, f"{value:.4g}", ha="center", va="bottom", fontsize=9)
        label(axes, "", "bytes a layer keeps, in sbh", title)
        axes.tick_params(axis="x", labelsize=8)
        axes.margins(y=0.1)
    legend(left, loc="upper right")
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
