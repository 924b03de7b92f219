"""Hierarchical: inside the domains, then between members of the same position, then inside again.

All-reduce = reduce-scatter of S over g, all-reduce of S/g over k, all-gather of S over g; a chain of phases. Needs
the same number of members in every domain.
"""

import dataclasses

import numpy as np

from sim.collectives import direct, ring, torus
from sim.collectives.stage import Algorithm, Block, Stage
from sim.collectives.transfer import Round, Transfer

KINDS = frozenset({"all_reduce", "all_gather", "reduce_scatter"})
CHAIN = {
    "all_reduce": (("intra", "reduce_scatter"), ("inter", "all_reduce"), ("intra", "all_gather")),
    "all_gather": (("inter", "all_gather"), ("intra", "all_gather")),
    "reduce_scatter": (("intra", "reduce_scatter"), ("inter", "reduce_scatter")),
}


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage inside the domains, one between them along rings, ..."""
    if not block.even:
        return f"needs equal subgroups, got {list(block.sizes)} members in the domains"
    k, g = block.num_domains, block.sizes[0]
    if k == 1 or g == 1:
        return f"needs several domains of several members, got {k} of {g}"
    grid = block.grid
    inside = block.inner or Block(grid.reshape(-1, g), (g,))
    between = Block(np.swapaxes(grid, 1, 2).reshape(-1, k), (1,) * k)
    result = []
    for where, part in CHAIN[kind]:
        stage = _inside(part, inside) if where == "intra" else ring.stage(part, between)
        share = 1.0 if where == "intra" else 1 / g
        result.append(dataclasses.replace(stage, name=f"{where} {part}", load=stage.load * share))
    return tuple(result)


def _inside(part: str, block: Block) -> Stage:
    """The way of one domain: along its torus, over its mesh, else a ring."""
    for builder in (torus.stages, direct.stages):
        made = builder(part, block)
        if not isinstance(made, str):
            return made[0]
    return ring.stage(part, block)


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """Rings within and across; sizes (g,) * k, one chunk a member."""
    k, g = len(sizes), sizes[0]
    member = np.arange(n).reshape(k, g)
    result: list[Round] = []
    for where, part in CHAIN[kind]:
        turns = ring.rounds(part, g if where == "intra" else k)
        rows = member if where == "intra" else member.T
        result += [
            tuple(
                moved
                for row, j in zip(rows, range(len(rows)), strict=True)
                for t in turn
                for moved in _lift(t, row, member, where, j)
            )
            for turn in turns
        ]
    return result


def _lift(t: Transfer, row: np.ndarray, member: np.ndarray, where: str, j: int) -> list[Transfer]:
    """A transfer of a sub-ring, on the whole group's chunks: chunk (h, i) belongs to member i of domain h."""
    k, g = member.shape
    chunks = member[:, t.chunk] if where == "intra" else member[t.chunk : t.chunk + 1, j]
    return [Transfer(int(row[t.src]), int(row[t.dst]), int(c), 1 / (k * g), t.add) for c in chunks]


HIERARCHICAL = Algorithm("hierarchical", KINDS, stages, rounds)
