"""Part: a piece of a layer as ops: forward, input gradient, weight gradient, and what it keeps between them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sim.program import Allocate, Collective, Compute, Free, Op

Lanes = Mapping[str, tuple[Op, ...]]
"""Ops by stream: ``compute``, and what runs beside it (``tp``, ``cp``, ``ep``)."""

COMPUTE, TP, CP, EP = "compute", "tp", "cp", "ep"


def lanes(*compute: Op, tp: Iterable[Op] = (), cp: Iterable[Op] = ()) -> Lanes:
    """Return ops on the compute stream, and beside it."""
    if not (tp or cp):
        return {COMPUTE: compute} if compute else {}
    found = {COMPUTE: compute, TP: tuple(tp), CP: tuple(cp)}
    return {stream: ops for stream, ops in found.items() if ops}


def join(parts: Iterable[Lanes]) -> Lanes:
    """Return the lanes one after another."""
    found: dict[str, list[Op]] = {}
    for part in parts:
        for stream, ops in part.items():
            found.setdefault(stream, []).extend(ops)
    return {stream: tuple(ops) for stream, ops in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a layer on one rank.

    ``forward``; ``backward`` (input gradient) and ``weight`` (weight gradient), or ``fused`` (both
    in one pass, where communication of one hides under the other). ``saved``: bytes kept from
    forward until the backward; ``kept``: of those, until the weight gradient. ``recomputed``: what
    selective recomputation runs again first, and ``recomputed_bytes`` what it does not save.
    ``remade``: bytes a neighbour saves that this part's backward makes again, so that nobody keeps them.
    ``weights``: parameters on this rank, ``expert_weights`` of them those of routed experts.
    """

    name: str
    forward: Lanes = field(default_factory=dict)
    backward: Lanes = field(default_factory=dict)
    weight: Lanes = field(default_factory=dict)
    fused: Lanes | None = None
    saved: float = 0.0
    kept: float = 0.0
    recomputed: Lanes = field(default_factory=dict)
    recomputed_bytes: float = 0.0
    remade: float = 0.0
    weights: float = 0.0
    expert_weights: float = 0.0

    @property
    def both(self) -> Lanes:
        """Fused backward."""
        return self.fused if self.fused is not None else join((self.backward, self.weight))


def again(part: Part, forward: Lanes, nbytes: float) -> Part:
    """Return a part that repeats ``forward`` before its backward rather than keep ``nbytes`` of what that made."""
    return replace(
        part,
        recomputed=join((repeat(forward), part.recomputed)),
        recomputed_bytes=part.recomputed_bytes + nbytes,
    )


def all_again(parts: list[Part]) -> list[Part]:
    """Return parts that run again before the last one's backward instead of keeping what they save."""
    held = sum(part.saved for part in parts)
    return [*parts[:-1], again(parts[-1], join(part.forward for part in parts), held)]


def repeat(part: Lanes) -> Lanes:
    """Return forward ops as recomputation (allocations excepted)."""
    found: dict[str, tuple[Op, ...]] = {}
    for stream, ops in part.items():
        found[stream] = tuple(
            replace(op, phase="R") if isinstance(op, Compute | Collective) else op
            for op in ops
            if not isinstance(op, Allocate | Free)
        )
    return found
