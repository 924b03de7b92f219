"""What does the order in which ranks hold a sequence cost, and what do documents packed into it change?

Four layers of Llama 3 8B, a sequence of 128K tokens over 8 H100 of one host; every way to span it, in zigzag and
contiguous order, holding one document, documents of 16K, or a long-tailed mix (most short, most tokens in long ones).
Expected: in contiguous order the last rank has (2n - 1)/n times the mean causal work and all wait for it, which zigzag
mends; documents cut the work, and where their lengths differ zigzag no longer evens it out, while all-to-all does.
Sources: Llama 3 report, 3.3.2; WLB-LLM (arXiv:2503.17924).
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.chart import figure, label
from experiments.study import claim, write
from experiments.study_figure import bars, legend
from experiments.trial import trial
from sim.metrics import mfu
from sim.units import KiB, ms
from workloads.models import model
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, CP, LAYERS, SEQ_LEN, BATCH = "llama3-8b", "h100-fat-tree", 8, 4, int(128 * KiB), 8
WAYS: dict[str, dict[str, Any]] = {
    "ring, zigzag": {"context": "ring"},
    "ring, contiguous": {"context": "ring", "context_balance": "contiguous"},
    "all-gather, zigzag": {"context": "all_gather"},
    "all-gather, contiguous": {"context": "all_gather", "context_balance": "contiguous"},
    "all-to-all": {"context": "ulysses"},
    "all-to-all, ring of 2": {"context": "ulysses+ring", "context_inner": 4},
}
DOCUMENTS = {
    "one document": "",
    "documents of 16K": "16384",
    "long-tailed mix": "1024:0.6,4096:0.25,16384:0.1,65536:0.03,131072:0.02",
}


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every way with every packing."""
    rows = []
    shape = replace(model(MODEL), num_layers=LAYERS)
    for packing, documents in DOCUMENTS.items():
        for way, fields in list(WAYS.items())[: 2 if quick else None]:
            plan = Plan(
                cp=CP,
                global_batch=BATCH,
                seq_len=SEQ_LEN,
                recompute="full",
                documents=documents,
                **fields,
            )
            result = trial(shape, CLUSTER, plan)
            mean, step = result.mean, result.timeline.step_time
            work = [part["compute"] + part.get("recompute", 0.0) for part in result.parts]
            waits = sum(seconds for cause, seconds in mean.items() if cause.startswith("wait."))
            rows.append(
                {
                    "documents": packing,
                    "way": way,
                    "step_ms": step / ms,
                    "wait_share": waits / step,
                    "exposed_cp_share": mean.get("exposed.cp", 0.0) / step,
                    "most_over_least_work": max(work) / min(work),
                    "mfu_causal": mfu(result.timeline, "causal"),
                    "rank_classes": result.timeline.num_classes,
                }
            )
    return pd.DataFrame(rows)


def check(frame: pd.DataFrame) -> str:
    """Contiguous order costs a quarter and more; unequal documents unbalance zigzag, and never an all-to-all."""
    row = frame.set_index(["documents", "way"]).sort_index()
    one, equal, mix = DOCUMENTS
    even, apart = (row.loc[(one, f"ring, {order}")] for order in ("zigzag", "contiguous"))
    claim(even["rank_classes"] == 1, "zigzag ranks should all be alike")
    claim(even["wait_share"] < 0.03, "zigzag ranks should not wait")
    claim(apart["rank_classes"] == CP, "contiguous ranks should all differ")
    slower = apart["step_ms"] / even["step_ms"]
    claim(slower > 1.25, "contiguous parts should cost over a quarter more")
    mixed, short = row.loc[(mix, "ring, zigzag")], row.loc[(equal, "ring, zigzag")]
    claim(
        short["step_ms"] < 0.8 * even["step_ms"],
        "short documents should take under 0.8 of the step",
    )
    claim(
        mixed["wait_share"] + mixed["exposed_cp_share"] > even["wait_share"] + 0.03,
        "mixed documents should wait 3 points more than whole ones",
    )
    text = ""
    if (mix, "all-to-all") in row.index:
        swapped = row.loc[(mix, "all-to-all")]
        claim(swapped["rank_classes"] == 1, "swapped documents should be alike on all ranks")
        claim(
            swapped["step_ms"] < mixed["step_ms"],
            "swapping should be faster than a split of each document",
        )
        faster = mixed["step_ms"] / swapped["step_ms"]
        text = f"; an all-to-all, after which each rank has whole documents, is {faster:.2f} times as fast"
    lost = [r["wait_share"] + r["exposed_cp_share"] for r in (mixed, even)]
    return (
        f"Contiguous pieces make a ring of {CP} {slower:.2f} times as slow as zigzag ones: the last rank has "
        f"{apart['most_over_least_work']:.1f} times the work of the first, and on average ranks wait "
        f"{apart['wait_share']:.0%} of the step.\nWith a long-tailed mix of documents a zigzag ring waits "
        f"{lost[0]:.0%} of the step (with one document {lost[1]:.0%}){text}."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw step time and the share spent waiting, a group of bars a way."""
    chart, (left, right) = figure(
        "Zigzag evens out one document; unequal documents unbalance it again, and leave an all-to-all alone",
        2,
        height=5.2,
    )
    ways = list(dict.fromkeys(frame["way"]))
    for axes, columns in ((left, ["step_ms"]), (right, ["wait_share", "exposed_cp_share"])):
        groups = [
            (str(name), list(part[columns].sum(axis=1)))
            for name, part in frame.groupby("documents", sort=False)
        ]
        bars(axes, [way.replace(", ", "\n") for way in ways], groups)
        axes.tick_params(axis="x", labelsize=8)
    label(left, "", "step (ms)")
    label(right, "", "waiting for other ranks or for transfers")
    right.yaxis.set_major_formatter("{x:.0%}")
    left.margins(y=0.2)
    legend(left, loc="upper right", fontsize=8)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
