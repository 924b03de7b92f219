"""Is an all-reduce a reduce-scatter and an all-gather, in bytes and in time, on every fabric?

Expected: yes, at equal cost: 2 (n-1)/n of the buffer a member (the course, CS336 lecture 8). Bytes must agree on every
link. Time agrees where one constant serves all three; NCCL's all-reduce kernel is measured faster than its two halves
(its constants are fitted on nccl-tests of each kind), and in-switch reduction beats both.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from experiments.study import claim, write
from experiments.study_figure import bars, figure, legend
from sim.collectives import CollectivePlan, Communicator
from sim.units import GiB, ms
from topologies import cluster

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BYTES = 1 * GiB


class Case(NamedTuple):
    """A fabric, how many of its devices, and an algorithm."""

    fabric: str
    num_devices: int
    algorithm: str


CASES = (
    Case("h100-fat-tree", 64, "ring"),
    Case("h100-fat-tree", 64, "hierarchical"),
    Case("tpu-v5p", 64, "ring"),
    Case("tpu-v5p", 64, "torus"),
    Case("cloudmatrix-384", 64, "ring"),
    Case("cloudmatrix-384", 64, "halving_doubling"),
)
TIME_TOLERANCE = 0.02


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Price the three collectives of 1 GiB by the same algorithm on three fabrics."""
    import pandas as pd

    return pd.DataFrame([_row(case) for case in (CASES[::2] if quick else CASES)])


def _row(case: Case) -> dict[str, object]:
    machine = cluster(case.fabric, case.num_devices)
    group = Communicator(machine, np.arange(case.num_devices))
    whole, scatter, gather = (
        group.plan(kind, BYTES, case.algorithm)
        for kind in ("all_reduce", "reduce_scatter", "all_gather")
    )
    carried = [_link_bytes(plan, machine.num_links) for plan in (whole, scatter, gather)]
    apart = np.abs(carried[0] - carried[1] - carried[2]).max() / carried[0].max()
    sent = carried[0][np.isin(machine.links.src, np.arange(case.num_devices))].sum()
    n = case.num_devices
    return {
        **case._asdict(),
        "all_reduce_s": whole.alone,
        "reduce_scatter_s": scatter.alone,
        "all_gather_s": gather.alone,
        "time_ratio": whole.alone / (scatter.alone + gather.alone),
        "sent_over_ring_volume": sent / n / (2 * (n - 1) / n * BYTES),
        "link_bytes_difference": round(float(apart), 12),
        "fastest": group.plan("all_reduce", BYTES).algorithm,
        "fastest_s": group.plan("all_reduce", BYTES).alone,
    }


def _link_bytes(plan: CollectivePlan, num_links: int) -> np.ndarray:
    carried = np.zeros(num_links)
    for phase in plan.phases:
        carried[phase.links] += phase.loads * phase.nbytes
    return carried


def check(frame: "pd.DataFrame") -> str:
    """Bytes are equal on every link; times within 2 % off NVLink, and never more than the two halves."""
    claim((frame.link_bytes_difference < 1e-9).all(), "a link carries other bytes")
    nccl = frame.fabric == "h100-fat-tree"
    off = (frame.time_ratio[~nccl] - 1.0).abs().max()
    claim(off < TIME_TOLERANCE, f"time ratio off by {off:.3f}")
    claim(
        frame.time_ratio[nccl].between(0.75, 1.0 + TIME_TOLERANCE).all(),
        "NCCL's all-reduce takes less than 0.75 or more than 1 of its two halves",
    )
    low = frame.time_ratio[nccl].min()
    return (
        f"All-reduce = reduce-scatter + all-gather: bytes equal on every link of three fabrics, time within {off:.1%} "
        f"on torus and optics; NCCL's fused kernel needs {low:.2f} of the two halves.\n"
        "Held against: equality of bytes to 1e-9, time within 2 % where one set of constants serves all kinds; NCCL's "
        "kinds have constants of their own, fitted on nccl-tests."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw the whole beside its halves."""
    made, (axes,) = figure("An all-reduce costs what its two halves cost, on every fabric")
    names = [f"{r.fabric}\n{r.algorithm.replace('_', ' ')}" for r in frame.itertuples()]
    halves = (frame.reduce_scatter_s + frame.all_gather_s) / ms
    bars(
        axes,
        names,
        [
            ("all-reduce", list(frame.all_reduce_s / ms)),
            ("reduce-scatter + all-gather", list(halves)),
            ("all-reduce, fastest algorithm there", list(frame.fastest_s / ms)),
        ],
        text="%.1f",
    )
    axes.set_ylabel("ms for 1 GiB on 64 devices", fontsize=10)
    axes.tick_params(axis="x", labelsize=8)
    legend(axes)
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
