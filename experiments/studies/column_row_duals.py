"""Are the collectives of forward and backward duals, with and without sequence parallelism?

One Llama 3 8B layer under tensor parallelism of 8. Expected: f is nothing forward and an all-reduce backward, g the
reverse; with sequence parallelism f is an all-gather and then a reduce-scatter, g the reverse, and the same bytes
cross the links. Sources: Shoeybi et al. 2019, section 3; Korthikanti et al. 2022, section 4.2.
"""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure, label, stacked
from experiments.study import claim, write
from experiments.study_figure import SERIES, legend
from experiments.trial import trial
from sim.metrics import SHARE
from sim.program import Collective
from sim.units import MiB
from workloads.models import model
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, TP, SEQ_LEN = "llama3-8b", "h100-host", 8, 4096
LAYERS = {
    "qkv": "f\nQKV",
    "attn_out": "g\nout",
    "mlp_up": "f\nMLP up",
    "mlp_down": "g\ndown",
}
"""Linear layers of a block: split by columns (f before them) or by rows (g after them)."""
COLOURS = {"all_reduce": SERIES[0], "all_gather": SERIES[1], "reduce_scatter": SERIES[2]}


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay 2 and 3 layers and count the tensor-parallel collectives of the one between."""
    del quick
    rows = []
    for parallel in (False, True):
        more, few = (collectives(layers, sequence_parallel=parallel) for layers in (3, 2))
        for (name, kind, phase, nbytes), count in sorted((more - few).items()):
            sent = nbytes * SHARE[kind] * (TP - 1) / TP * count
            rows.append({"sequence_parallel": parallel, "layer": name, "kind": kind,
                         "pass": "forward" if phase == "F" else "backward",
                         "count": count, "sent_mib": sent / MiB})  # fmt: skip
    return pd.DataFrame(rows)


def collectives(layers: int, *, sequence_parallel: bool) -> Counter[tuple[str, str, str, float]]:
    """Count the collectives over tp: (layer part, kind, phase, bytes)."""
    plan = Plan(tp=TP, global_batch=1, seq_len=SEQ_LEN, sequence_parallel=sequence_parallel)
    timeline = trial(replace(model(MODEL), num_layers=layers), CLUSTER, plan).timeline
    return Counter(
        (span.op.name.split(".")[0], span.op.kind, span.op.phase, span.op.nbytes)
        for span in timeline.spans(0)
        if isinstance(span.op, Collective) and span.op.axis == "tp"
    )


def check(frame: pd.DataFrame) -> str:
    """Forward and backward are duals, and sequence parallelism moves the same bytes but one gather."""
    plain, sharded = frame[~frame["sequence_parallel"]], frame[frame["sequence_parallel"]]
    table = plain.pivot_table(
        index="kind", columns="pass", values="count", aggfunc="sum", fill_value=0
    )
    claim(
        table.loc["all_reduce", "forward"] == table.loc["all_reduce", "backward"] == 2,
        "without SP a layer should all-reduce twice each way",
    )
    split = sharded.pivot_table(
        index="kind", columns="pass", values="count", aggfunc="sum", fill_value=0
    )
    claim(
        split.loc["all_gather", "forward"] == split.loc["reduce_scatter", "forward"] == 2,
        "with SP a forward should gather twice and scatter twice",
    )
    claim(split.loc["reduce_scatter", "backward"] == 2, "with SP a backward should scatter twice")
    again = split.loc["all_gather", "backward"] - 2
    claim(again == 2, "with SP a backward should gather its inputs twice again")
    volume = frame.groupby(["sequence_parallel", "pass"])["sent_mib"].sum()
    claim(
        abs(volume[True, "forward"] / volume[False, "forward"] - 1) < 1e-9,
        "SP should move as many bytes forward as all-reduces do",
    )
    extra = volume[True, "backward"] / volume[False, "backward"]
    claim(abs(extra - 1.5) < 1e-9, "SP's backward should move 1.5 times the bytes")
    return (
        "A layer has 2 all-reduces forward and 2 backward; sequence parallelism makes each a reduce-scatter and an "
        "all-gather of the same bytes, in the mirrored place.\nBackward it gathers the two saved inputs once more for "
        f"the weight gradients ({extra:.1f} times the backward bytes),"
        " which the software hides under the input gradients."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw bytes a rank sends in a layer, by part, pass and kind."""
    title = "Forward and backward mirror each other: f is nothing, then all-reduce; g the reverse"
    chart, panels = figure(title, 2, sharey=True)
    places = [(layer, way) for layer in LAYERS for way in ("forward", "backward")]
    short = {"forward": "fwd", "backward": "bwd"}
    names = [f"{LAYERS[layer]}\n{short[way]}" for layer, way in places]
    for axes, (parallel, part) in zip(panels, frame.groupby("sequence_parallel"), strict=True):
        sent = part.groupby(["kind", "layer", "pass"])["sent_mib"].sum()
        kinds = [kind for kind in COLOURS if kind in set(part["kind"])]
        parts = {kind: [float(sent.get((kind, *place), 0.0)) for place in places] for kind in kinds}
        stacked(axes, names, parts, COLOURS)
        axes.tick_params(axis="x", labelsize=8)
        what = "with sequence parallelism" if parallel else "tensor parallelism alone"
        label(axes, "", "" if parallel else "MiB a rank sends in one layer", what)
        legend(axes, ncols=2, loc="upper left")
        axes.margins(y=0.3)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
