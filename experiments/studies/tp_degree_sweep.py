"""How far does tensor parallelism go on NVLink hosts, NVL72 racks, a TPU torus and an all-optical machine?

Expected: at degree 8 all keep most (CS336 lecture 8: TP = 8 is often best); beyond, hosts of 8 fall most, larger fast
domains less, a torus least (the lecture: TPUs take it further). One device, the measure, could not hold the four
layers: its step is what it would take. Found: every fabric falls smoothly, since each degree halves the kernels and
not the bytes; the edge of a host costs 2 to 8 points more than the same step elsewhere and is no cliff, since a ring
leaves a host over its eight NICs at once. A torus gains again from 32 to 64: 4 x 4 x 4 closes its rings into tori on
three axes, 4 x 4 x 2 does not (0.2 against 0.5 TB/s of all-reduce).
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.fabric import FABRICS
from experiments.study import claim, replay, write
from experiments.study_figure import figure, hollow, legend, line, powers
from experiments.trial import fits
from sim.metrics import exposed_communication, mfu
from workloads.models import model
from workloads.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MODEL = replace(model("llama3-405b"), num_layers=4)
"""Four of the 126 layers: all layers are alike."""
SEQ_LEN = 8192
DEGREES = (1, 2, 4, 8, 16, 32, 64)
SOFTWARE = {"torus": "xla"}
EDGE = 8
"""Devices of an H100 host."""
KEPT = 0.8
"""Share of one device's MFU that every fabric should keep at that degree."""


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Replay one sequence of 8,192 on 1 to 64 devices of each fabric, sequence parallelism on."""
    import pandas as pd

    families = list(FABRICS)[::2] if quick else list(FABRICS)
    return pd.DataFrame([row for family in families for row in _sweep(family)])


def _sweep(family: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    alone = 0.0
    for tp in DEGREES:
        plan = Plan(
            tp=tp,
            global_batch=1,
            seq_len=SEQ_LEN,
            sequence_parallel=tp > 1,
            software=SOFTWARE.get(family, "megatron-core"),
        )
        result = replay(MODEL, FABRICS[family].preset, tp, plan)
        share = exposed_communication(result.mean).get("tp", 0.0) / result.timeline.step_time
        alone = alone or mfu(result.timeline)
        rows.append(
            {
                "fabric": family,
                "preset": FABRICS[family].preset,
                "tp": tp,
                "mfu": mfu(result.timeline),
                "kept": mfu(result.timeline) / alone,
                "exposed_share": share,
                "fits": fits(result),
            }
        )
    return rows


def check(frame: "pd.DataFrame") -> str:
    """At 8 all keep 80 %; past it hosts of 8 fall most, at each degree; at 64 the torus keeps most."""
    table = frame.pivot_table(index="fabric", columns="tp", values="kept")
    claim(table[EDGE].min() > KEPT, f"at degree 8 a fabric keeps {table[EDGE].min():.2f}")
    step = table[2 * EDGE] / table[EDGE]
    for tp in (t for t in DEGREES if t > EDGE):
        claim(table[tp].idxmin() == "fat tree", f"{table[tp].idxmin()} keeps least at {tp}")
    claim(step.idxmin() == "fat tree", f"{step.idxmin()} loses most from 8 to 16")
    claim(table[64].idxmax() == "torus", f"{table[64].idxmax()} keeps most at 64")
    torus = table.loc["torus"]
    claim(torus[64] > torus[32], "closing the torus' rings should gain")
    steps, last = (", ".join(f"{f} {v:.0%}" for f, v in part.items()) for part in (step, table[64]))
    return (
        f"At degree 8 every fabric keeps {table[EDGE].min():.0%} or more of one device's MFU; at 64 remain: {last}.\n"
        f"From 8 to 16, past the H100 host, is kept: {steps}; no cliff, eight NICs carry what NVLink did. "
        "Held against: 8 is fine everywhere, hosts of 8 fall most beyond it, the torus keeps most at 64; the "
        "lowest degrees, the measure of the others, would not fit (hollow)."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw MFU kept and exposed share against the degree."""
    made, (left, right) = figure(
        "Tensor parallelism falls smoothly past 8 on every fabric: most on hosts of 8, least on a torus",
        2,
    )
    for number, family in enumerate(FABRICS):
        rows = frame[frame.fabric == family]
        if len(rows):
            line(left, rows.tp, rows.kept, FABRICS[family].label, number)
            unfit = rows[~rows.fits.astype(bool)]
            hollow(left, unfit.tp, unfit.kept, number)
            line(right, rows.tp, rows.exposed_share, FABRICS[family].label, number)
    left.set_ylabel("MFU over that of one device (hollow: does not fit)", fontsize=10)
    right.set_ylabel("exposed share of the step", fontsize=10)
    for axes in (left, right):
        powers(axes, DEGREES, "tensor-parallel degree")
        axes.set_ylim(0)
        axes.axvline(8, color="#c9c9c9", linewidth=1, linestyle=":")
    left.text(8.2, 0.02, "edge of the H100 host", fontsize=8, color="#5a5a5a")
    legend(right, loc="upper left")
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
