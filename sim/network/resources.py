"""Resources: links that every activity loads alike are one resource, and links that can never bind drop out.

So contention on a fat tree of sixteen thousand devices is a handful of numbers, exactly.
"""

from collections.abc import Sequence

import numpy as np

from sim.network.fair_share import Use

Pattern = tuple[np.ndarray, np.ndarray]
"""Links, and the bytes each carries for one byte of work."""


def reduce_links(
    patterns: Sequence[Pattern], capacity: np.ndarray, keep: Sequence[int] = ()
) -> tuple[list[tuple[Use, ...]], list[float], dict[int, int]]:
    """Return the resources each pattern uses, their capacities, and the resource of each kept link.

    ``capacity`` (num_links,) bytes/s. Links in ``keep`` (those whose bandwidth will change) stay resources of their
    own, and no other link drops out for their sake.
    """
    used, place = _used(patterns, len(capacity))
    if not len(used):
        return [() for _ in patterns], [], {}
    kept = np.array([k for k in keep if place[k] >= 0], dtype=np.int64)
    row_of = place[kept]
    group, first = _equal_columns(patterns, used, place, capacity, row_of)
    uses = np.zeros((len(patterns), len(first)))
    for number, (links, loads) in enumerate(patterns):
        columns = group[place[links]]
        uses[number, columns] = loads
    binding = _binding(uses / capacity[used[first]], set(group[row_of].tolist()))
    index = np.full(len(first), -1)
    index[binding] = np.arange(len(binding))
    found = [
        tuple((int(index[c]), float(uses[n, c])) for c in np.flatnonzero(uses[n]) if index[c] >= 0)
        for n in range(len(patterns))
    ]
    capacities = [float(c) for c in capacity[used[first]][binding]]
    return (
        found,
        capacities,
        {int(k): int(index[group[r]]) for k, r in zip(kept, row_of, strict=True)},
    )


def _used(patterns: Sequence[Pattern], num_links: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the links any pattern uses, and the place of every link among them (-1: unused)."""
    place = np.full(num_links, -1)
    for links, _ in patterns:
        place[links] = 0
    used = np.flatnonzero(place == 0)
    place[used] = np.arange(len(used))
    return used, place


def _equal_columns(
    patterns: Sequence[Pattern],
    used: np.ndarray,
    place: np.ndarray,
    capacity: np.ndarray,
    alone: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Number links by (capacity, load in every pattern): (group of each, first link of each group).

    A random linear combination stands for the whole column; the seed is fixed.
    """
    random = np.random.default_rng(20261129)
    value = capacity[used] / capacity[used].max() * random.uniform(1.0, 2.0)
    for links, loads in patterns:
        where = place[links]
        value[where] += loads / loads.max(initial=1e-30) * random.uniform(1.0, 2.0)
    grid = np.rint(np.ldexp(value / value.max(), 40)).astype(np.int64)
    grid[alone] = -1 - np.arange(len(alone))
    _, first, group = np.unique(grid, return_index=True, return_inverse=True)
    return group, first


def _binding(pressure: np.ndarray, keep: set[int]) -> np.ndarray:
    """Columns that some other column does not press at least as hard in every pattern."""
    order = np.argsort(-pressure.sum(axis=0), kind="stable")
    chosen: list[int] = []
    matrix = np.zeros((0, pressure.shape[0]))
    for column in order:
        mine = pressure[:, column]
        if column in keep:
            chosen.append(int(column))
        elif not (matrix >= mine * (1.0 - 1e-12)).all(axis=1).any():
            chosen.append(int(column))
            matrix = np.vstack([matrix, mine[None]])
    return np.array(sorted(chosen), dtype=np.int64)
