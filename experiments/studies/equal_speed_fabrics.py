"""At equal device speed, why do predictable splits like the torus and routed tokens the switch?

Expected: a ring uses every link of a torus at once, so all-gathers and reductions run as fast there as on a switch that
costs far more; routed tokens cross the bisection, which a torus of n devices has only n^(2/3) of; and a hot
destination is as bad everywhere, since the last link is the limit (CS336 lecture 8; TPU book, sections 2 and 3).
"""

from typing import TYPE_CHECKING

import numpy as np

from experiments.fabric import FABRICS
from experiments.study import claim, write
from experiments.study_figure import bars, figure, legend, short
from sim.collectives import Communicator
from sim.units import GiB

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DEVICES, BYTES = 256, 4 * GiB
FAMILIES = ("torus", "fat tree", "optical")
HOT_SHARE = 0.05
"""Of skewed routing: the share of its bytes every device sends to one device."""
PATTERNS = {
    "gradients:\nall-reduce of 256": ("all_reduce", 256),
    "parameters:\nall-gather of 256": ("all_gather", 256),
    "routed tokens:\nall-to-all of 64": ("all_to_all", 64),
    "routed tokens:\nall-to-all of 256": ("all_to_all", 256),
}
SKEWED = "skewed tokens:\n5 % to one device"


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Price 4 GiB of each pattern on 256 devices, all groups at once, every level at 400 GB/s a device."""
    import pandas as pd

    return pd.DataFrame([row for family in FAMILIES for row in _rows(family)])


def _rows(family: str) -> list[dict[str, object]]:
    machine = FABRICS[family].machine(DEVICES, equal=True)
    rows: list[dict[str, object]] = []
    for pattern, (kind, size) in PATTERNS.items():
        groups = np.arange(DEVICES).reshape(-1, size)
        plan = Communicator(machine, groups).plan(kind, BYTES)
        rows.append(_row(family, pattern, plan.algorithm, plan.alone))
    everyone = Communicator(machine, np.arange(DEVICES))
    skewed = everyone.all_to_all(_skewed())
    rows.append(_row(family, SKEWED, skewed.algorithm, skewed.alone))
    return rows


def _row(family: str, pattern: str, algorithm: str, seconds: float) -> dict[str, object]:
    return {
        "fabric": family,
        "pattern": pattern.replace("\n", " "),
        "algorithm": algorithm,
        "time_s": seconds,
    }


def _skewed() -> np.ndarray:
    """Bytes from each device to each other: even but for device 0, which takes a share of everybody's."""
    sizes = np.full((DEVICES, DEVICES), BYTES * (1.0 - HOT_SHARE) / (DEVICES - 1))
    sizes[:, 0] = BYTES * HOT_SHARE
    np.fill_diagonal(sizes, 0.0)
    return sizes


def check(frame: "pd.DataFrame") -> str:
    """Rings: torus within 15 % of the best; all-to-all of 256: over 3 times the switch; skew levels them."""
    table = frame.pivot_table(index="pattern", columns="fabric", values="time_s")
    over = table["torus"] / table["optical"]
    rings = max(over["gradients: all-reduce of 256"], over["parameters: all-gather of 256"])
    routed = over["routed tokens: all-to-all of 256"]
    skew = over[SKEWED.replace("\n", " ")]
    claim(rings < 1.15, f"rings on the torus take {rings:.2f} of the optical fabric's time")
    claim(routed > 3.0, f"routed tokens on the torus take {routed:.2f}")
    claim(skew < 0.6 * routed, f"skew: {skew:.2f}")
    return (
        f"At equal device speed rings on a torus take {rings:.2f} of the time on an all-optical switch, routed tokens "
        f"{routed:.1f}; when {HOT_SHARE:.0%} of the tokens go to one device the factor is {skew:.1f}: its own links "
        "become the limit.\n"
        "Held against: rings within 15 %, all-to-all of 256 over 3 times (bisection of 4x8x8: 2 x 32 links for 128 "
        "senders), skew well below that."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw times by pattern and fabric."""
    made, (axes,) = figure(
        "Rings run on a torus as fast as on a switch; routed tokens take five times as long"
    )
    names = [*PATTERNS, SKEWED]
    best = frame[frame.fabric == "optical"].time_s.to_numpy()
    groups = [
        (FABRICS[family].label, list(frame[frame.fabric == family].time_s.to_numpy() / best))
        for family in FAMILIES
    ]
    bars(axes, names, groups, text=short)
    axes.tick_params(axis="x", labelsize=8.5)
    axes.set_ylabel(
        "time over that on the optical switch\n(4 GiB, 256 devices, 400 GB/s a level)", fontsize=10
    )
    legend(axes, loc="upper left")
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
