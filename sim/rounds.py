"""One collective alone, transfer by transfer: the `rounds` fidelity without a program of one's own."""

from collections.abc import Sequence

import numpy as np

from sim.cluster import Cluster
from sim.engine import LinkChange, simulate
from sim.program import Action, Collective, Program, Script, Segment


def play_rounds(
    cluster: Cluster,
    groups: np.ndarray | Sequence[Sequence[int]],
    kind: str,
    nbytes: float,
    algorithm: str = "auto",
    *,
    fidelity: str = "rounds",
    changes: Sequence[LinkChange] = (),
) -> float:
    """Return the seconds ``kind`` of ``nbytes`` takes on all ``groups`` (num_groups, n) of devices at once.

    Every transfer of the algorithm is a flow through the engine (``fidelity="activity"``: the collective is one
    activity). ``changes``: links whose bandwidth changes on the way. `CollectiveError` for what cannot run.
    """
    devices = np.atleast_2d(np.asarray(groups, dtype=np.int64))
    ranks = np.arange(devices.size)
    op = Collective(kind, kind, "all", float(nbytes), algorithm=algorithm)
    script = Script(streams={"comm": (Segment(Action("collective"), (op,)),)})
    program = Program(
        scripts=(script,),
        script_of_rank=np.zeros(devices.size, dtype=np.int64),
        groups={"all": ranks.reshape(devices.shape)},
    )
    timeline = simulate(
        program, cluster, placement=devices.ravel(), changes=changes, fidelity=fidelity
    )
    return timeline.step_time
