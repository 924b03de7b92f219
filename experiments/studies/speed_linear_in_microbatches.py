"""Does four times as many microbatches cost four times as much to simulate, not more?

Expected: at most 4.4 times, in events and in CPU seconds; an event replay of the field needs 18 CPU seconds for 62,552
spans and 262 for 250,136 (SimuMax 1.2, measured on a 2-core machine): quadratic. Events are asserted; CPU seconds
depend on the machine and are only printed.
"""

import time
from itertools import pairwise
from typing import TYPE_CHECKING

from experiments.study import claim, replay, write
from experiments.study_figure import figure, legend, line, powers
from sim.units import KILO
from workloads.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MODEL, DEVICES, SEQ_LEN = "llama3-8b", 64, 4096
MICROBATCHES = (16, 64, 256)
MOST = 4.4
SIMUMAX = {62552: 18.0, 250136: 262.0}
"""Spans and CPU seconds of its pipeline trace, asynchronous mode."""


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Replay the same pipeline of 8 stages, every op on its own, with 16, 64 and 256 microbatches."""
    import pandas as pd

    return pd.DataFrame([_row(m) for m in (MICROBATCHES[:2] if quick else MICROBATCHES)])


def _row(microbatches: int) -> dict[str, object]:
    plan = Plan(
        tp=2,
        pp=8,
        dp=4,
        zero=1,
        global_batch=4 * microbatches,
        seq_len=SEQ_LEN,
        sequence_parallel=True,
    )
    start = time.process_time()
    timeline = replay(MODEL, "h100-fat-tree", DEVICES, plan, merged=False).timeline
    spent = time.process_time() - start
    return {
        "microbatches": microbatches,
        "events": timeline.num_events,
        "spans": timeline.num_spans,
        "events_per_span": timeline.num_events / timeline.num_spans,
        "replay_cpu_s": round(spent, 3),
    }


def check(frame: "pd.DataFrame") -> str:
    """Events grow by at most 4.4 for every 4 times the microbatches."""
    events = list(frame.events)
    growth = max(b / a for a, b in pairwise(events))
    claim(growth < MOST, f"events grow {growth:.2f} times")
    claim((frame.events_per_span <= 2.0).all(), "a span should cost at most two events")
    return (
        f"Four times the microbatches cost {growth:.2f} times the events, up to {events[-1]:,} events for "
        f"{frame.spans.iloc[-1]:,} spans ({frame.events_per_span.max():.1f} a span).\n"
        f"Held against: at most {MOST} times; the peer's event replay grows 14.6 times for 4 times the spans."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw CPU seconds against spans, ours and the peer's."""
    made, (left, right) = figure(
        "The replay is linear in microbatches: four times as many, four times the events", 2
    )
    line(left, frame.microbatches, frame.events / KILO, "events", 0)
    line(left, frame.microbatches, frame.spans / KILO, "spans", 1)
    powers(left, list(frame.microbatches), "microbatches")
    powers(left, (16, 32, 64, 128, 256, 512), "thousands", axis="y")
    legend(left)
    line(right, frame.spans / KILO, frame.replay_cpu_s, "Windtunnel", 0)
    line(right, [s / KILO for s in SIMUMAX], list(SIMUMAX.values()), "SimuMax 1.2, its trace", 3)
    powers(right, (16, 32, 64, 128, 256), "thousand spans")
    powers(right, (0.125, 0.5, 2, 8, 32, 128), "CPU seconds", axis="y")
    legend(right)
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
