"""Rows: which rank classes a picture shows, and what they are called."""

from collections.abc import Mapping, Sequence

import numpy as np

from sim.timeline import Timeline

ROWS = 48
"""At most so many rank classes are drawn unless they are asked for."""
ALIKE = 5e-4
"""Rank classes of a place whose spans start within this share of the step of each other are drawn once."""
FEW = 2
"""Up to so many rank classes get a lane for every stream."""


def shown_classes(timeline: Timeline, most: int = ROWS) -> list[int]:
    """Return the rank classes worth a row, by place: those nobody could tell apart once, evenly thinned to ``most``."""
    found: list[int] = []
    by_size = sorted(range(timeline.num_classes), key=lambda c: (-timeline.folding.size[c], c))
    starts = {c: _starts(timeline, c) for c in by_size}
    for c in by_size:
        same = [other for other in found if timeline.place(other) == timeline.place(c)]
        if not any(_alike(starts[c], starts[other], timeline.step_time) for other in same):
            found.append(c)
    found.sort(key=lambda c: (timeline.place(c), c))
    if len(found) > most:
        largest: dict[int, int] = {}
        for c in by_size:
            largest.setdefault(timeline.place(c), c)
        found = [largest[place] for place in sorted(largest)]
    return [found[i] for i in np.unique(np.linspace(0, len(found) - 1, most).round().astype(int))]


def _starts(timeline: Timeline, rank_class: int) -> dict[str, np.ndarray]:
    """When the spans of each stream start."""
    return {
        s.name: np.array([span[3] for span in s.spans]) for s in timeline.streams_of[rank_class]
    }


def _alike(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray], step: float) -> bool:
    """Whether two rank classes would look the same in a picture."""
    return a.keys() == b.keys() and all(
        len(a[name]) == len(b[name]) and bool(np.all(np.abs(a[name] - b[name]) <= step * ALIKE))
        for name in a
    )


def row_name(timeline: Timeline, rank_class: int, shown: Sequence[int]) -> str:
    """Name a row by its place; by its first rank too where several classes share the place."""
    place = timeline.place(rank_class)
    if sum(timeline.place(c) == place for c in shown) == 1 and len(shown) > 1:
        return str(place)
    rank, size = timeline.folding.representative[rank_class], timeline.folding.size[rank_class]
    return f"rank {rank:,}" + (f" (x {size:,})" if size > 1 and len(shown) <= FEW else "")
