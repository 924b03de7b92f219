"""A pipeline of two ranks and two microbatches, by hand: what figures, traces and reports are tried on.

Forward takes 2 s, backward 3 s (of which the first 1 s again forward), a message 1 s, the optimizer 1 s.
"""

from sim.engine import simulate
from sim.program import Action, Allocate, Collective, Free, Recv, Segment, Send
from tests.sim.hand_made import kernel, program, star

PEERS = {"pp.next": [1, -1], "pp.prev": [-1, 0]}


def act(kind, microbatch, stage):
    return Action(kind, stage, 0, microbatch)


def backward(stage, microbatch, **more):
    ops = (
        kernel("again", 1, "R", **more),
        kernel("back", 2, "B", signals=("gone",) if stage else ()),
        Free("activations", 100.0),
    )
    return Segment(act("BW", microbatch, stage), ops)


def forward(stage, microbatch, **more):
    return Segment(
        act("F", microbatch, stage), (Allocate("activations", 100.0), kernel("fore", 2, **more))
    )


def pipeline():
    """The timeline: rank 0 runs F0 F1 BW0 BW1, rank 1 F0 BW0 F1 BW1; both reduce and step."""
    both = range(2)
    end = Segment(
        Action("optimizer"),
        (kernel("adam", 1, "O"), Collective("norm", "all_reduce", "dp", 1.0, "O")),
    )
    first = {
        "compute": (
            *(forward(0, m, signals=("done",)) for m in both),
            *(backward(0, m, waits=("came.B",)) for m in both),
            end,
        ),
        "send": tuple(
            Segment(act("F", m, 1), (Send("send.F", "pp.next", 1.0, waits=("done",)),))
            for m in both
        ),
        "recv": tuple(
            Segment(act("B", m, 0), (Recv("recv.B", "pp.prev", 1.0, "B", signals=("came.B",)),))
            for m in both
        ),
    }
    second = {
        "compute": (
            *(part for m in both for part in (forward(1, m, waits=("came.F",)), backward(1, m))),
            end,
        ),
        "recv": tuple(
            Segment(act("F", m, 1), (Recv("recv.F", "pp.next", 1.0, signals=("came.F",)),))
            for m in both
        ),
        "send": tuple(
            Segment(act("B", m, 0), (Send("send.B", "pp.prev", 1.0, "B", waits=("gone",)),))
            for m in both
        ),
    }
    made = program(first, second, groups={"dp": [[0, 1]]}, peers=PEERS, memory={"parameters": 50.0})
    return simulate(made, star(2))


__all__ = ["pipeline"]
