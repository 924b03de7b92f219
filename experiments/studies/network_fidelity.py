"""How much does playing a collective as one activity miss of playing its every transfer?

Expected: nothing on an idle network, where both cost the same hops and bytes; little where what contends loads links
alike; more where it doesn't, since an activity slows as a whole when one of its links is shared, while its transfers
over other links go on to the end of their round and then make room.
"""

from typing import TYPE_CHECKING

import numpy as np

from experiments.study import claim, write
from experiments.study_figure import bars, figure, legend
from sim.cluster import Cluster
from sim.collectives import ALGORITHMS
from sim.engine import LinkChange, simulate
from sim.errors import CollectiveError
from sim.program import Action, Collective, Program, Script, Segment
from sim.rounds import play_rounds
from sim.units import MiB
from topologies import cluster

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MACHINES = {"h100-fat-tree": 32, "tpu-v5p": 64, "cloudmatrix-384": 32}
QUICK = ("h100-fat-tree",)
KINDS = ("all_reduce", "all_gather")
BYTES = 64 * MiB
FIDELITIES = ("activity", "rounds")
IDLE, SYMMETRIC = 0.01, 0.05


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Play collectives both ways: alone, beside their like, beside another, and over a link that slows on the way."""
    import pandas as pd

    rows: list[dict[str, object]] = []
    for name in QUICK if quick else MACHINES:
        machine = cluster(name, MACHINES[name])
        everyone = np.arange(machine.num_devices)
        for kind in KINDS:
            for algorithm in ALGORITHMS.values():
                if kind in algorithm.kinds:
                    rows += _cases(name, machine, everyone, kind, algorithm.name)
    frame = pd.DataFrame(rows)
    frame["difference"] = frame.rounds_s / frame.activity_s - 1.0
    return frame


def _cases(
    name: str, machine: Cluster, everyone: np.ndarray, kind: str, algorithm: str
) -> list[dict[str, object]]:
    """Rows of one collective in every situation; none where it cannot run."""
    groups = everyone.reshape(-1, 8)
    try:
        alone = [
            play_rounds(machine, everyone, kind, BYTES, algorithm, fidelity=f) for f in FIDELITIES
        ]
    except CollectiveError:
        return []
    link = int(machine.routes([0], [len(everyone) // 2]).link[0])
    change = LinkChange(alone[0] / 2, link, float(machine.link_capacity[link]) / 4)
    found = {
        "idle": alone,
        "beside its like": [
            _beside(machine, everyone[None], kind, algorithm, everyone[None], kind, algorithm, f)
            for f in FIDELITIES
        ],
        "beside rings of 8": [
            _beside(machine, everyone[None], kind, algorithm, groups, "all_gather", "ring", f)
            for f in FIDELITIES
        ],
        "a link slows": [
            play_rounds(machine, everyone, kind, BYTES, algorithm, fidelity=f, changes=[change])
            for f in FIDELITIES
        ],
    }
    return [
        {
            "machine": name,
            "kind": kind,
            "algorithm": algorithm,
            "case": case,
            "activity_s": activity,
            "rounds_s": rounds,
        }
        for case, (activity, rounds) in found.items()
    ]


def _beside(
    machine: Cluster, first: np.ndarray, kind: str, algorithm: str,
    second: np.ndarray, other: str, way: str, fidelity: str,
) -> float:  # fmt: skip
    """Seconds until two collectives that start together, each on a stream of its own, have ended."""
    ops = {
        "first": Collective("first", kind, "first", BYTES, algorithm=algorithm),
        "second": Collective("second", other, "second", BYTES, algorithm=way),
    }
    script = Script(
        streams={name: (Segment(Action("collective"), (op,)),) for name, op in ops.items()}
    )
    program = Program(
        scripts=(script,),
        script_of_rank=np.zeros(machine.num_devices, dtype=np.int64),
        groups={"first": first, "second": second},
    )
    return simulate(program, machine, fidelity=fidelity).step_time


def check(frame: "pd.DataFrame") -> str:
    """Within 1 % on an idle network, within 5 % beside its like; elsewhere the difference is what it is."""
    worst = frame.difference.abs().groupby(frame.case).max()
    mean = frame.difference.abs().groupby(frame.case).mean()
    claim(worst["idle"] <= IDLE, f"idle: {worst['idle']:.3f}")
    alike = frame[
        (frame.case == "beside its like") & frame.algorithm.map(lambda a: ALGORITHMS[a].alike)
    ]
    symmetric = alike.difference.abs().max()
    claim(symmetric <= SYMMETRIC, f"symmetric: {symmetric:.3f}")
    mixed, slowed = "beside rings of 8", "a link slows"
    differing = worst["beside its like"]
    return (
        f"One activity misses nothing of its transfers on an idle network (at most {worst['idle']:.1%}) or beside its "
        f"like ({symmetric:.1%}; {differing:.0%} where an algorithm's rounds load different links); beside other "
        f"rings they differ by {mean[mixed]:.1%} on average and {worst[mixed]:.0%} at most, over a link that slows on "
        f"the way by {mean[slowed]:.1%} and {worst[slowed]:.0%}.\n"
        f"Held against: {IDLE:.0%} on an idle network, {SYMMETRIC:.0%} under symmetric contention of algorithms whose "
        "rounds are alike."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw the mean and largest difference of every case."""
    made, (axes,) = figure(
        "One activity is exact on an idle network, and off by some percent beside other traffic", 1
    )
    cases = list(dict.fromkeys(frame.case))
    size = frame.difference.abs().groupby(frame.case)
    parts = [
        ("mean", [100 * float(size.mean()[c]) for c in cases]),
        ("largest", [100 * float(size.max()[c]) for c in cases]),
    ]
    bars(axes, cases, parts, text="%.1f")
    axes.set_ylabel("difference of the times, %", fontsize=10)
    legend(axes)
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
