"""Does simulating 131,072 devices cost more than 16,384?

Expected: ranks that must behave alike are simulated once, so growing data parallelism 8 times leaves classes, spans and
events as they are; only the machine's graph grows. Llama 3 405B's plan (tp 8, pp 16, 8 chunks) on a fat tree of H100s.
"""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.runfile import load_run
from experiments.study import claim, replay, write
from experiments.study_figure import bars, figure, legend, short
from topologies import cluster

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RUN, MACHINE = "llama3-405b", "h100-fat-tree"
DEVICES = (16384, 131072)
EVENTS_FACTOR = 1.05


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Build the machine and replay the step at dp = 128 and 1,024, batch grown along."""
    import pandas as pd

    return pd.DataFrame([_row(devices) for devices in (DEVICES[:1] if quick else DEVICES)])


def _row(devices: int) -> dict[str, object]:
    config = load_run(RUN)
    dp = devices // (config.plan.tp * config.plan.pp)
    grown = config.plan.global_batch * dp // config.plan.dp
    start = time.process_time()
    cluster(MACHINE, devices)
    built = time.process_time()
    plan = replace(config.plan, dp=dp, global_batch=grown)
    timeline = replay(config.model, MACHINE, devices, plan).timeline
    return {
        "devices": devices,
        "dp": dp,
        "classes": timeline.num_classes,
        "events": timeline.num_events,
        "spans": timeline.num_spans,
        "step_s": timeline.step_time,
        "machine_cpu_s": round(built - start, 2),
        "replay_cpu_s": round(time.process_time() - built, 2),
    }


def check(frame: "pd.DataFrame") -> str:
    """Classes and spans stay, events within 5 %."""
    first, last = frame.iloc[0], frame.iloc[-1]
    claim((frame.classes == first.classes).all(), "rank classes grow with the machine")
    claim((frame.spans == first.spans).all(), "spans grow with the machine")
    claim(last.events < EVENTS_FACTOR * first.events, "events grow with the machine")
    return (
        f"{last.devices:,.0f} devices replay as {last.classes:.0f} rank classes and {last.events:,.0f} events for "
        f"{last.spans:,.0f} spans, {first.devices:,.0f} devices as {first.classes:.0f} and {first.events:,.0f}; the "
        f"step grows from {first.step_s:.2f} to {last.step_s:.2f} s.\n"
        "Held against: equal classes and spans, events within 5 %; what is left grows with the graph of the machine."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw what is simulated and what it costs."""
    made, (left, right) = figure(
        "8 times the data parallelism: the same classes, spans and events", 2
    )
    names = [f"{d:,} devices" for d in frame.devices]
    bars(left, names, [("spans", list(frame.spans)), ("events", list(frame.events))], text=short)
    left.set_title("replayed", fontsize=10, loc="left")
    groups = [
        ("machine: graph and routes", list(frame.machine_cpu_s)),
        ("lowering, loads and replay", list(frame.replay_cpu_s)),
    ]
    bars(right, names, groups, text="%.1f", first=2)
    right.set_title("CPU seconds, on the machine at hand", fontsize=10, loc="left")
    left.yaxis.set_major_formatter("{x:,.0f}")
    for axes in (left, right):
        legend(axes, loc="upper left")
        axes.margins(y=0.3)
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
