"""Pass times: what the passes of a pipeline rank cost against each other, for schedules whose order depends on it."""

from collections.abc import Callable, Sequence

from sim.program import Compute
from workloads.chunk import Chunk, Variant
from workloads.layers.part import Lanes
from workloads.schedules import Times

DIGITS = 3
"""Times are rounded to so many digits, so that equal layers give equal times."""


def pass_times(chunks: Sequence[Chunk]) -> Times:
    """Return F, B and W of all chunks of a pipeline together, by FLOPs; F is 1.

    A fully recomputed forward counts to B. Without FLOPs all are 1. A hop counts nothing: the
    program does not know the network.
    """
    passes: tuple[Callable[[Chunk], Lanes], ...] = (
        lambda chunk: chunk.forward(Variant()),
        lambda chunk: chunk.input_gradient(Variant()),
        lambda chunk: chunk.weight_gradient(Variant()),
    )
    forward, backward, weight = (sum(_flops(one(chunk)) for chunk in chunks) for one in passes)
    if not forward:
        return Times()
    return Times(1.0, round(backward / forward, DIGITS), round(weight / forward, DIGITS))


def _flops(lanes: Lanes) -> float:
    return sum(op.kernel.flops for ops in lanes.values() for op in ops if isinstance(op, Compute))
