"""Which parallel strategy is best: in synchronisation, memory, bytes, batch and ease?

GPT-3 2.7B on 8 A100, each strategy alone, replayed; the columns are counted on the spans and the memory curve.
Expected: no strategy dominates: each is worse than another in some column. Source: the lecture's summary table.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.study import claim, write
from experiments.trial import Row, numbers, peak_bytes, trial
from sim.metrics import communication_volume
from sim.program import Collective, Send
from sim.timeline import Timeline
from sim.units import GB, GiB
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, N, BATCH, SEQ_LEN = "gpt3-2.7b", "a100-superpod", 8, 32, 2048
STRATEGIES: dict[str, dict[str, Any]] = {
    "DDP": {"dp": N},
    "ZeRO-1": {"dp": N, "zero": 1},
    "ZeRO-3 / FSDP": {"dp": N, "zero": 3},
    "pipeline (1F1B)": {"pp": N},
    "tensor": {"tp": N},
    "tensor + sequence": {"tp": N, "sequence_parallel": True},
    "context (ring)": {"cp": N, "context": "ring"},
}
"""Plan of each."""
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
RUNS_WELL = 0.8
"""Share of the rate at the largest batch that a strategy keeps at its smallest."""
COLUMNS = {
    "calls": "calls a rank\nmakes, a step", "exposed_share": "exposed and\nbubble",
    "states_gib": "states, GiB\na device", "activations_gib": "activations, GiB\na sequence",
    "sent_gb": "GB sent a rank,\na step", "min_batch": "smallest batch\n(sequences)",
    "changed_ops": "calls inside\nthe layers",
}  # fmt: skip
"""What is compared; less is better everywhere."""


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay each strategy on the same batch."""
    rows = []
    for name, degrees in list(STRATEGIES.items())[: 4 if quick else None]:
        plan = Plan(global_batch=BATCH, seq_len=SEQ_LEN, **degrees)
        result = trial(MODEL, CLUSTER, plan)
        timeline, found = result.timeline, numbers(result)
        peak = max(result.peaks, key=lambda p: p.nbytes).breakdown
        states = sum(
            peak.get(kind, 0.0) for kind in ("parameters", "gradients", "optimizer", "gathered")
        )
        sent = sum(communication_volume(timeline, 0).values())
        held = (peak_bytes(result) - states) / min(plan.num_microbatches, plan.pp)
        row: Row = {"strategy": name, "calls": calls(timeline, inside=False)}
        row["exposed_share"] = found["exposed_fraction"] + found["bubble_fraction"]
        row |= {"states_gib": states / GiB, "activations_gib": held / GiB, "sent_gb": sent / GB}
        row |= {"min_batch": smallest_batch(degrees), "changed_ops": calls(timeline, inside=True)}
        rows.append(row | {"tokens_per_s": found["tokens_per_s"], "mfu": found["mfu"]})
    return pd.DataFrame(rows)


def smallest_batch(degrees: dict[str, Any]) -> int:
    """Return the smallest batch at which a strategy keeps `RUNS_WELL` of its rate at the largest, by replays."""
    rates = {}
    for batch in reversed(BATCHES):
        if batch % degrees.get("dp", 1):
            break
        result = trial(MODEL, CLUSTER, Plan(global_batch=batch, seq_len=SEQ_LEN, **degrees))
        rates[batch] = batch / result.timeline.step_time
    return min(batch for batch, rate in rates.items() if rate >= RUNS_WELL * rates[BATCHES[-1]])


def calls(timeline: Timeline, *, inside: bool) -> int:
    """Count a rank's communication: all calls of the step, or the distinct ones inside layers."""
    spans = [s.op for s in timeline.spans(0) if isinstance(s.op, Collective | Send)]
    named = [op for op in spans if isinstance(op, Collective) and op.axis in ("tp", "cp")]
    return len({(op.name.split(".")[0], op.phase) for op in named}) if inside else len(spans)


def dominating(frame: pd.DataFrame) -> list[str]:
    """Return the strategies that equal or beat all others in every column."""
    table = frame.set_index("strategy")[list(COLUMNS)]
    best = table.le(table.min() * 1.001)
    return [str(name) for name in table.index if best.loc[name].all()]


def check(frame: pd.DataFrame) -> str:
    """No strategy is best in every column; the extremes are where the lecture has them."""
    claim(dominating(frame) == [], f"{dominating(frame)} is best in every column")
    row = frame.set_index("strategy")
    claim(
        row["states_gib"]["ZeRO-3 / FSDP"] < 0.3 * row["states_gib"]["DDP"],
        "ZeRO-3 should hold under 0.3 of DDP's states",
    )
    claim(
        row["sent_gb"]["pipeline (1F1B)"] < row["sent_gb"]["DDP"],
        "a pipeline should send less than DDP",
    )
    if "tensor" in row.index:
        claim(
            row["sent_gb"]["tensor"] > 3 * row["sent_gb"]["DDP"],
            "TP should send over 3 times DDP's bytes",
        )
        claim(
            row["min_batch"]["tensor"] < row["min_batch"]["DDP"],
            "TP should run at a smaller batch than DDP",
        )
    claim(
        row["min_batch"].idxmax() == "pipeline (1F1B)", "a pipeline should need the largest batch"
    )
    losers = {column: str(row[column].idxmax()) for column in COLUMNS}
    return (
        f"No strategy dominates: {losers['states_gib']} holds most states, {losers['sent_gb']} sends most, "
        f"{losers['min_batch']} needs the largest batch, {losers['changed_ops']} changes the layers most.\n"
        f"Fastest here at batch {BATCH}: {row['tokens_per_s'].idxmax()}. Smallest batch: one that keeps "
        f"{RUNS_WELL:.0%} of the "
        f"rate at {BATCHES[-1]}. ZeRO-1 sends less than DDP since it gathers in bf16 what DDP reduces in "
        "fp32; ZeRO-3 four "
        f"times DDP's, since it gathers twice and reduces in each of {BATCH // N} microbatches."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the table: a row a strategy, a column a criterion, darker where worse."""
    from experiments.chart import figure

    chart, (axes,) = figure(
        "No strategy is best in every column (darker: worse within its column)", height=4.2
    )
    axes.set_axis_off()
    table = frame.set_index("strategy")
    forms = {
        "exposed_share": ".0%",
        "states_gib": ".1f",
        "activations_gib": ".2f",
        "sent_gb": ".1f",
    }
    for y, name in enumerate(table.index):
        axes.text(-0.08, y + 0.5, name, ha="right", va="center", fontsize=9.5)
        for x, column in enumerate(COLUMNS):
            rank = table[column].rank(method="average")[name]
            share = (rank - 1) / max(len(table) - 1, 1)
            shade = tuple(1.0 - share * (1.0 - c) for c in (0.55, 0.70, 0.86))
            axes.add_patch(_cell(x, y, shade))
            axes.text(
                x + 0.5,
                y + 0.5,
                format(table[column][name], forms.get(column, ".0f")),
                ha="center",
                va="center",
                fontsize=9.5,
            )
    for x, text in enumerate(COLUMNS.values()):
        axes.text(x + 0.5, -0.1, text, ha="center", va="bottom", fontsize=8.5)
    axes.set_xlim(-1.6, len(COLUMNS))
    axes.set_ylim(len(table), -0.9)
    return chart


def _cell(x: int, y: int, colour: tuple[float, ...]) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="white", linewidth=2)


def main() -> None:
    """Write the answer into results."""
    write(__file__)
