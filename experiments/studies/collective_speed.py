"""What does simulating one all-reduce cost, from 8 to 4,096 devices?

Expected: as one activity almost nothing, under 50 ms once the graph exists. The rounds of a ring are alike: solving the
flows of one and repeating it is exact on an idle network and as cheap. Not like for like: the field's C++ simulator
plays every message (ASTRA-sim, analytical backend, ring of 4 chunks, on a 2-core machine: 0.02, 0.05, 2.1 and 268 s for
8, 64, 512 and 4,096 devices). CPU seconds depend on the machine; both of our ways must agree on the time.
"""

import time
from typing import TYPE_CHECKING

import numpy as np

from experiments.study import claim, write
from experiments.study_figure import figure, legend, line, powers
from sim.cluster import Cluster
from sim.collectives import ALGORITHMS, Communicator, flow_rounds
from sim.network.fair_share import fair_rates
from sim.units import GiB
from topologies import cluster

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BYTES = 1 * GiB
ASTRA_SIM_S = {8: 0.02, 64: 0.05, 512: 2.1, 4096: 268.0}
AGREE = 0.01


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Price a ring all-reduce of 1 GiB on a TPU v5p torus as one activity, and round by round as flows."""
    import pandas as pd

    return pd.DataFrame([_row(n) for n in (list(ASTRA_SIM_S)[:3] if quick else ASTRA_SIM_S)])


def _row(devices: int) -> dict[str, object]:
    machine = cluster("tpu-v5p", devices)
    everyone = np.arange(devices)
    start = time.process_time()
    plan = Communicator(machine, everyone).plan("all_reduce", BYTES, "ring")
    priced = time.process_time()
    seconds, transfers = _flows(machine, everyone)
    played = time.process_time()
    return {
        "devices": devices,
        "transfers": transfers,
        "bandwidth_time_s": sum(phase.nbytes / phase.ceiling for phase in plan.phases),
        "flows_time_s": seconds,
        "activity_cpu_s": round(priced - start, 4),
        "flows_cpu_s": round(played - priced, 4),
        "astra_sim_wall_s": ASTRA_SIM_S[devices],
    }


def _flows(machine: Cluster, everyone: np.ndarray) -> tuple[float, int]:
    """Seconds and number of all transfers of a ring, rounds one after another at max-min fair rates."""
    seconds, transfers = 0.0, 0
    for turn in flow_rounds(machine, everyone, "all_reduce", ALGORITHMS["ring"]):
        routes = machine.routes(turn.src, turn.dst)
        rates = fair_rates(
            ceiling=np.full(len(turn.src), machine.link_capacity.max()),
            weight=np.ones(len(turn.src)),
            activity=routes.pair,
            resource=routes.link,
            load=routes.share,
            capacity=machine.link_capacity,
        )
        seconds += turn.repeat * float((turn.share * BYTES / rates).max())
        transfers += turn.repeat * len(turn.src)
    return seconds, transfers


def check(frame: "pd.DataFrame") -> str:
    """Both ways give the same bandwidth time; transfers are those of a ring."""
    off = (frame.flows_time_s / frame.bandwidth_time_s - 1.0).abs().max()
    claim(off < AGREE, f"flows and activity differ by {off:.3f}")
    most = int(frame.devices.max())
    last = frame[frame.devices == most].iloc[0]
    claim(last.transfers % (2 * (most - 1)) == 0, "a ring should have 2 (n - 1) transfers a device")
    return (
        f"One all-reduce of {most:,} devices is one activity, or one solved round of flows that stands for "
        f"{last.transfers:,.0f} transfers: the same time within {off:.1%}; a C++ simulator that plays every message "
        f"needs {last.astra_sim_wall_s:g} s.\n"
        f"Held against: agreement on an idle network within {AGREE:.0%}. CPU seconds stand in the table and are not "
        "compared."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw CPU seconds against devices."""
    made, (axes,) = figure(
        "One all-reduce costs milliseconds: as one activity, or as one solved round of flows"
    )
    line(axes, frame.devices, frame.activity_cpu_s.clip(lower=1e-4), "one activity (CPU s)", 0)
    line(
        axes,
        frame.devices,
        frame.flows_cpu_s.clip(lower=1e-4),
        "one round of flows solved, the alike ones repeated (CPU s)",
        1,
    )
    line(
        axes,
        frame.devices,
        frame.astra_sim_wall_s,
        "ASTRA-sim, analytical, ring of 4 chunks (wall s)",
        3,
    )
    powers(axes, list(frame.devices), "devices")
    axes.set_yscale("log")
    axes.set_ylabel("seconds to simulate one all-reduce", fontsize=10)
    legend(axes, loc="upper left")
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
