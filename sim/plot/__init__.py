"""Pictures of a replay: each function takes data and returns a matplotlib `Figure`; saving it is the caller's."""

from sim.plot.gantt import gantt
from sim.plot.ledger import ledger_bars, waterfall, waterfall_steps
from sim.plot.links import link_bars, link_use
from sim.plot.machine import machine_figure
from sim.plot.memory import memory_curve_figure, memory_peaks_figure
from sim.plot.svg import svg

__all__ = [
    "gantt",
    "ledger_bars",
    "link_bars",
    "link_use",
    "machine_figure",
    "memory_curve_figure",
    "memory_peaks_figure",
    "svg",
    "waterfall",
    "waterfall_steps",
]
