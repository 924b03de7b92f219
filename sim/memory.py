"""Memory: what each rank holds over time, by category, and its peak."""

from typing import NamedTuple

import numpy as np

from sim.timeline import Timeline


class MemoryCurve(NamedTuple):
    """Bytes held by category after each change: ``time`` (n,), ``held`` (n, num_categories)."""

    time: np.ndarray
    categories: tuple[str, ...]
    held: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Bytes held in all, (n,)."""
        return np.asarray(self.held.sum(axis=1))


class Peak(NamedTuple):
    """The most a rank holds: bytes, when (s), and what it is made of."""

    nbytes: float
    time: float
    breakdown: dict[str, float]


def memory_curve(timeline: Timeline, rank_class: int) -> MemoryCurve:
    """Return what a rank of the class holds over the step (memory held from the start included)."""
    rank = timeline.folding.representative[rank_class]
    script = timeline.program.scripts[timeline.program.script_of_rank[rank]]
    events = [event for stream in timeline.streams_of[rank_class] for event in stream.memory]
    categories = tuple(dict.fromkeys([*script.memory, *(category for _, category, _ in events)]))
    column = {category: i for i, category in enumerate(categories)}
    time = np.array([0.0, *(event[0] for event in events)])
    change = np.zeros((len(time), len(categories)))
    for category, nbytes in script.memory.items():
        change[0, column[category]] += nbytes
    change[np.arange(1, len(time)), [column[event[1]] for event in events]] = [
        event[2] for event in events
    ]
    order = np.argsort(time, kind="stable")
    return MemoryCurve(time[order], categories, np.cumsum(change[order], axis=0))


def memory_peak(timeline: Timeline, rank_class: int) -> Peak:
    """Return the peak of a rank class and its breakdown."""
    curve = memory_curve(timeline, rank_class)
    total = curve.total
    at = int(total.argmax())
    breakdown = {
        category: float(nbytes)
        for category, nbytes in zip(curve.categories, curve.held[at], strict=True)
        if abs(nbytes) > 0.5
    }
    return Peak(float(total[at]), float(curve.time[at]), breakdown)
