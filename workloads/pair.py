"""Pair: an overlapped forward and backward (``F&B``) of one rank, side by side on two compute streams.

The forward stays on the rank's own streams; the backward's ops go to streams and semaphores of
their own. The pair starts when both inputs are there and ends when both are done (DualPipe,
arXiv:2412.19437, section 3.2.1), so that what one communicates hides under what the other computes;
kernels of both share the device.
"""

from dataclasses import replace

from sim.program import Allocate, Free, Merged, Op, Signal, Sync, Wait
from workloads.chunk import GRADS
from workloads.layers.part import COMPUTE, Lanes

GO, DONE = "pair.go", "pair.done"
SHARED = (GRADS, GO, DONE)
"""Semaphores a second half has in common with the rest of its rank."""


def second(name: str) -> str:
    """Return the name of a stream or semaphore in the second half of a pair.

    >>> second("compute"), second("params.gathered")
    ('compute.b', 'params.gathered.b')
    """
    return name if name in SHARED else f"{name}.b"


def second_half(body: Lanes) -> dict[str, tuple[Op, ...]]:
    """Return a backward's ops on streams of their own, begun and ended as the pair is."""
    found = {second(stream): renamed(ops) for stream, ops in body.items()}
    main = second(COMPUTE)
    found[main] = (Wait((GO,)), *found.get(main, ()), Signal((DONE,)))
    return found


def renamed(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Return ops with their semaphores under the names of a second half."""
    return tuple(_renamed(op) for op in ops)


def _renamed(op: Op) -> Op:
    if isinstance(op, Allocate | Free | Sync | Merged):
        return op
    changes = {
        field: tuple(second(name) for name in getattr(op, field))
        for field in ("waits", "signals", "starts")
        if getattr(op, field, ())
    }
    return replace(op, **changes) if changes else op  # type: ignore[arg-type]
