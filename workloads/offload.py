"""Offload: what stands in host memory while it is not used, and how it travels.

Activations: a layer's are copied out behind its forward, on a stream of their own, and back ahead of its backward, at
most `AHEAD` layers in advance; the last layer of a chunk, which its backward needs first, stays. Optimizer: gradients
travel out, the host steps on its own memory, the new weights travel back (ZeRO-Offload, arXiv:2101.06840).
"""

from collections.abc import Sequence

from sim.program import Allocate, Collective, Free, Op, Signal, Sync, Wait
from workloads.layers.part import Lanes, lanes

OUT, BACK = "offload", "reload"
"""Streams: device to host, host to device."""
AHEAD = 2
"""Layers whose activations may be back before they are used."""
ADAM_TRAFFIC = 24.0
"""Bytes of host memory a value that Adam reads and writes: master copy and two moments in fp32, both ways."""

LEFT, STORED, CREDIT, BACK_AGAIN = "offload.left", "offload.stored", "reload.credit", "reload.came"


def store(nbytes: float) -> Lanes:
    """Return the copy of a layer's activations to the host, after its forward."""
    copy = Collective("activations.out", "host_copy", "host", nbytes, "F")
    behind = (Wait((LEFT,)), copy, Free("activations", nbytes), Signal((STORED,)))
    return {**lanes(Signal((LEFT,))), OUT: behind}


def fetch(layers: Sequence[float]) -> Lanes:
    """Return the copies back for a backward of these layers' bytes, first needed first."""
    ahead: list[Op] = [Wait((STORED,)) for _ in layers]
    for nbytes in layers:
        ahead += [
            Wait((CREDIT,)),
            Allocate("activations", nbytes),
            Collective("activations.back", "host_copy", "host", nbytes, "B"),
            Signal((BACK_AGAIN,)),
        ]
    credits = (Signal((CREDIT,)) for _ in layers[:AHEAD])
    return {**lanes(*credits), BACK: tuple(ahead)}


def host_step(values: float, value: float, grad: float) -> tuple[Op, ...]:
    """Return the optimizer's step on the host: ``value`` bytes a weight, ``grad`` a gradient, ``values`` of them."""
    return (
        Collective("grads.out", "host_copy", "host", values * value, "O"),
        Sync(),
        Collective("adam.host", "host_step", "host", values * (grad + ADAM_TRAFFIC + value), "O"),
        Collective("params.back", "host_copy", "host", values * value, "O"),
    )
