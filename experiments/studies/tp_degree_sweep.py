"""How far does tensor parallelism go on NVLink hosts, NVL72 racks, a TPU torus and an all-optical machine?

Expected: on hosts of 8 it falls off beyond 8, where its all-gathers leave NVLink; larger fast domains and tori take it
further (CS336 lecture 8: TP = 8 is often best, TPUs take it further; TPU book: tensor parallelism is bound by links
beyond about F / 2200 devices an axis). Even inside the domain it falls: each degree halves the kernels and not the
bytes.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.fabric import FABRICS
from experiments.study import claim, replay, write
from experiments.study_figure import figure, legend, line, powers
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
KEPT = 0.7
"""Share of the MFU of one device below which a degree counts as fallen off."""


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
            }
        )
    return rows


def check(frame: "pd.DataFrame") -> str:
    """On hosts of 8 the last degree that keeps 70 % is 8; the torus goes further and keeps most at 64."""
    table = frame.pivot_table(index="fabric", columns="tp", values="kept")
    reach = {f: max(tp for tp in DEGREES if row[tp] >= KEPT) for f, row in table.iterrows()}
    claim(reach["fat tree"] == 8, f"hosts of 8 reach {reach['fat tree']}")
    claim(all(r > 8 for f, r in reach.items() if f != "fat tree"), reach)
    claim(table[64].idxmax() == "torus", "the torus should keep most at 64")
    steps = table.loc["fat tree"]
    claim(
        steps[16] / steps[8] < steps[8] / steps[4] < 1.0,
        "leaving the host should cost more than the step before",
    )
    reached = ", ".join(f"{FABRICS[str(f)].label} {r}" for f, r in reach.items())
    last = ", ".join(f"{f} {v:.0%}" for f, v in table[64].items())
    return (
        f"Tensor parallelism keeps {KEPT:.0%} of one device's MFU up to a degree of: {reached}; of degree 64 remains: "
        f"{last}.\n"
        "Held against: 8 on hosts of 8 (the lecture: TP = 8 is often best), more where the fast domain is larger, most "
        "at 64 on the torus (TPUs take it further)."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw MFU kept and exposed share against the degree."""
    made, (left, right) = figure(
        "Tensor parallelism holds to 8 on H100 hosts, to 16 elsewhere; a torus keeps most", 2
    )
    for number, family in enumerate(FABRICS):
        rows = frame[frame.fabric == family]
        if len(rows):
            line(left, rows.tp, rows.kept, FABRICS[family].label, number)
            line(right, rows.tp, rows.exposed_share, FABRICS[family].label, number)
    left.axhline(KEPT, color="#8a8a8a", linewidth=1, linestyle="--")
    left.set_ylabel("MFU over that of one device", fontsize=10)
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
