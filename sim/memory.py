"""Memory: what each rank holds over time, by category, and its peak."""

from typing import NamedTuple

import numpy as np

from sim.program import Allocate, Free, Merged
from sim.timeline import StreamRecord, Timeline


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
    """The most a rank holds: bytes, when (s), and what it is made of.

    ``apart``: the sum of each category's own peak: what an allocator has taken from the device that never gives a freed
    block of one category to another.
    """

    nbytes: float
    time: float
    breakdown: dict[str, float]
    apart: float


def memory_curve(timeline: Timeline, rank_class: int) -> MemoryCurve:
    """Return what a rank of the class holds over the step (memory held from the start included)."""
    rank = timeline.folding.representative[rank_class]
    script = timeline.program.scripts[timeline.program.script_of_rank[rank]]
    times, kinds, changes = (
        [np.zeros(len(script.memory))],
        [*script.memory],
        [*script.memory.values()],
    )
    blocks = [np.array(changes, dtype=float)]
    for stream in timeline.streams_of[rank_class]:
        times.append(np.array([event[0] for event in stream.memory], dtype=float))
        kinds.extend(event[1] for event in stream.memory)
        blocks.append(np.array([event[2] for event in stream.memory], dtype=float))
        for merged, starts in _chains(stream).items():
            offsets, names, deltas = _allocations(merged)
            if not names:
                continue
            times.append((starts[:, None] + offsets).ravel())
            kinds.extend(names * len(starts))
            blocks.append(np.tile(deltas, len(starts)))
    categories = tuple(dict.fromkeys(kinds))
    number = {category: i for i, category in enumerate(categories)}
    time = np.concatenate(times)
    change = np.zeros((len(time), len(categories)))
    change[np.arange(len(time)), [number[kind] for kind in kinds]] = np.concatenate(blocks)
    order = np.argsort(time, kind="stable")
    return MemoryCurve(time[order], categories, np.cumsum(change[order], axis=0))


def _chains(stream: StreamRecord) -> dict[Merged, np.ndarray]:
    """Start times of every chain, by chain."""
    found: dict[Merged, list[float]] = {}
    for op, _, _, start, _ in stream.spans:
        if isinstance(op, Merged):
            found.setdefault(op, []).append(start)
    return {op: np.array(starts) for op, starts in found.items()}


def _allocations(merged: Merged) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Allocations inside a chain: seconds from its start (on an idle machine), category, bytes taken."""
    offsets, names, deltas = [], [], []
    offset = 0.0
    for op, seconds in zip(merged.ops, merged.alone, strict=True):
        if isinstance(op, Allocate | Free):
            offsets.append(offset)
            names.append(op.category)
            deltas.append(op.nbytes if isinstance(op, Allocate) else -op.nbytes)
        offset += seconds
    return np.array(offsets), names, np.array(deltas, dtype=float)


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
    apart = float(curve.held.max(axis=0).sum())
    return Peak(float(total[at]), float(curve.time[at]), breakdown, apart)
