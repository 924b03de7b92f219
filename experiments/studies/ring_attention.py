"""From what sequence length does ring attention hide its communication, and how do gather and all-to-all compare?

Llama 3 8B layers over 8 H100, context parallel 8, in one host and on 8 hosts, 4K to 256K tokens. Expected: a ring
round computes s^2 and sends s, so overlap grows with the sequence until nothing shows; an all-gather of keys and
values is exposed whole (at 256K more than fits an H100, timed all the same); Ulysses sends least but all of it
exposed. Sources: Liu et al. 2023; Jacobs et al. 2023; Llama 3 report, 3.3.2.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.chart import figure, label, lines
from experiments.study import claim, write
from experiments.study_figure import legend, powers
from experiments.trial import Row, trial
from sim.program import Collective
from sim.timeline import Timeline
from sim.units import KiB
from workloads.models import model
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL, CLUSTER, CP, LAYERS = "llama3-8b", "h100-fat-tree", 8, 4
PLACES: dict[str, dict[str, Any]] = {
    "one host (NVLink)": {},
    "8 hosts (InfiniBand)": {"used_per_domain": 1},
}
WAYS = ("ring", "all_gather", "ulysses")
FLOOR = 0.002
"""Shares below this are drawn at it."""
LENGTHS = (4096, 8192, 16384, 32768, 65536, 131072, 262144)


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every way and length, in a host and across hosts."""
    rows = []
    shape = replace(model(MODEL), num_layers=LAYERS)
    for place, parameters in PLACES.items():
        for way in WAYS:
            for length in LENGTHS[:: 3 if quick else 1]:
                plan = Plan(cp=CP, context=way, global_batch=1, seq_len=length)
                result = trial(shape, CLUSTER, plan, **parameters)
                exposed, sent = result.mean.get("exposed.cp", 0.0), talk(result.timeline)
                work = result.mean["compute"]
                row: Row = {"links": place, "context": way, "seq_len": length, "compute_s": work,
                            "communication_s": sent, "exposed_s": exposed}  # fmt: skip
                hidden = max(1.0 - exposed / sent, 0.0)
                rows.append(row | {"hidden_share": hidden, "exposed_over_compute": exposed / work})
    return pd.DataFrame(rows)


def talk(timeline: Timeline) -> float:
    """Return seconds a rank's context-parallel collectives are in flight."""
    spans = timeline.spans(0)
    return sum(s.end - s.start for s in spans if isinstance(s.op, Collective) and s.op.axis == "cp")


def check(frame: pd.DataFrame) -> str:
    """The ring's overlap grows with the sequence to nearly all; what it leaves at 256K is least of the three."""
    rings = frame[frame["context"] == "ring"]
    for _, part in rings.groupby("links"):
        claim(
            part["exposed_over_compute"].iloc[-1] < 0.01,
            "at the longest sequence under 1 % should be exposed",
        )
        claim(
            part["hidden_share"].iloc[-1] > 0.9,
            "at the longest sequence over 90 % should be hidden",
        )
        claim(
            part["exposed_over_compute"].iloc[0] > 10 * part["exposed_over_compute"].iloc[-1],
            "exposure should fall tenfold with length",
        )
    longest = frame[frame["seq_len"] == frame["seq_len"].max()]
    for _, part in longest.groupby("links"):
        claim(
            part.set_index("context")["exposed_over_compute"].idxmin() == "ring",
            "the ring should expose least",
        )
    near, far = PLACES
    reached = {
        place: int(part[part["exposed_over_compute"] < 0.05]["seq_len"].min())
        for place, part in rings.groupby("links")
    }
    last = longest[longest["links"] == far].set_index("context")["exposed_over_compute"]
    return (
        f"Ring attention costs under 5 % of compute from {reached[near] / KiB:.0f}K tokens in a host and from "
        f"{reached[far] / KiB:.0f}K across hosts.\nAt {longest['seq_len'].iloc[0] / KiB:.0f}K across hosts it exposes "
        f"{last['ring']:.1%} of compute, Ulysses {last['ulysses']:.0%}, an all-gather {last['all_gather']:.0%}: "
        "computing grows with s squared, sending with s."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw exposed communication over compute, a panel a network."""
    chart, panels = figure(
        "Long sequences hide a ring's communication; gathers stay exposed", 2, sharey=True
    )
    lengths = sorted(set(frame["seq_len"]))
    for axes, (place, part) in zip(panels, frame.groupby("links", sort=False), strict=True):
        shown = part["exposed_over_compute"].clip(lower=FLOOR)
        named = part.assign(
            context=part["context"].str.replace("_", "-"), exposed_over_compute=shown
        )
        lines(axes, named, "seq_len", "exposed_over_compute", "context")
        powers(axes, lengths, "sequence length (tokens)")
        axes.set_xticks(lengths, [f"{length / KiB:.0f}K" for length in lengths])
        axes.set_yscale("log")
        axes.set_ylim(FLOOR * 0.8, None)
        axes.set_yticks([FLOOR, 0.01, 0.1, 1.0], ["< 0.2%", "1%", "10%", "100%"])
        label(
            axes,
            "sequence length (tokens)",
            "exposed communication over compute" if axes is panels[0] else "",
            place,
        )
    legend(panels[0])
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
