"""The machine and its traffic: links by what they join, how much of their capacity the step used."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sim.metrics import link_bytes
from sim.palette import PHASES, mix
from sim.timeline import Timeline
from sim.units import GB

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150


class LinkUse(NamedTuple):
    """Links that join the same kinds of vertices: how many, bytes/s of one, shares of capacity used over the step."""

    src: str
    dst: str
    kind: str
    number: int
    bandwidth: float
    mean: float
    largest: float
    busiest: str

    @property
    def name(self) -> str:
        """``device to leaf (nic-400g)``."""
        return f"{self.src} to {self.dst} ({self.kind})"


def link_use(timeline: Timeline) -> list[LinkUse]:
    """Return the use of every kind of link over the step, in the cluster's order of links."""
    cluster = timeline.cluster
    links = cluster.links
    kinds = sorted(set(cluster.vertex_kind))
    of_vertex = np.array([kinds.index(k) for k in cluster.vertex_kind])
    share = (
        link_bytes(timeline)
        / np.maximum(cluster.link_capacity, 1e-30)
        / (timeline.step_time or 1.0)
    )
    key = (of_vertex[links.src] * len(kinds) + of_vertex[links.dst]) * len(
        cluster.link_kinds
    ) + links.kind
    found = []
    for value in dict.fromkeys(key.tolist()):
        at = np.flatnonzero(key == value)
        busiest = int(at[share[at].argmax()])
        found.append(
            LinkUse(
                src=kinds[of_vertex[links.src[busiest]]],
                dst=kinds[of_vertex[links.dst[busiest]]],
                kind=cluster.link_kinds[int(links.kind[busiest])].name,
                number=len(at),
                bandwidth=float(cluster.link_capacity[busiest]),
                mean=float(share[at].mean()),
                largest=float(share[busiest]),
                busiest=cluster.link_name(busiest),
            )
        )
    return found


def link_bars(
    uses: list[LinkUse], *, title: str = "links: share of capacity used over the step"
) -> "Figure":
    """Draw the mean use of each kind of link as a bar and its busiest link as a tick."""
    from matplotlib.figure import Figure

    height = 0.3 * len(uses) + 0.85
    figure = Figure(figsize=(10.0, height), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0.34, 0.42 / height, 0.62, 1 - 0.75 / height))
    rows = range(len(uses))
    colour = PHASES["F"].colour
    axes.barh(rows, [1.0] * len(uses), color=mix(colour, 0.9), height=0.66)
    axes.barh(rows, [use.mean for use in uses], color=colour, height=0.66, label="mean")
    for row, use in enumerate(uses):
        axes.plot([use.largest] * 2, [row - 0.33, row + 0.33], color="#1a1a1a", lw=1.5)
        text = f"{use.mean:.1%}" + (
            f", busiest {use.largest:.1%}" if use.largest > 1.005 * use.mean else ""
        )
        axes.text(max(use.largest, use.mean) + 0.01, row, text, va="center", fontsize=7.5)
    axes.set_yticks(rows, [f"{u.number:,} x {u.name}\n{u.bandwidth / GB:,.0f} GB/s" for u in uses])
    axes.set_ylim(len(uses) - 0.5, -0.5)
    axes.set_xlim(0, 1.0)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])
    axes.tick_params(labelsize=7, length=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(title, fontsize=9, loc="left")
    return figure
