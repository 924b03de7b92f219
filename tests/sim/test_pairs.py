"""How much of an overlapped pair a rank only waits for transfers, by hand."""

import pytest

from sim.engine import simulate
from sim.pairs import pair_exposure
from sim.program import Action, Collective, Segment, Wait
from tests.sim.hand_made import F0, alike, kernel, program, star

PAIR = Action("F&B", 0, 0, 0)


def ring(seconds: float) -> Collective:
    return Collective("r", "send_recv", "ep", seconds, waits=("go",), signals=("done",))


def body(beside: float) -> tuple[object, ...]:
    return (kernel("f", 2, signals=("go",)), kernel("g", beside), Wait(("done",)), kernel("h", 1))


@pytest.mark.parametrize(("beside", "share"), [(4, 3 / 10), (7, 0.0), (0.5, 6.5 / 10)])
def test_what_a_pair_waits_for(beside: float, share: float) -> None:
    """A transfer of 7 s beside a kernel of 4: 3 of 2 + 7 + 1 s are exposed; waits outside pairs do not count."""
    each = {
        "compute": (Segment(F0, body(1)), Segment(PAIR, body(beside)), Segment(F0, body(2))),
        "ep.pair": (ring(7), ring(7), ring(7)),
    }
    two = program(each, each, groups={"ep": [[0, 1]]})
    assert pair_exposure(simulate(two, star(2))) == pytest.approx(share)


def test_a_transfer_on_the_computing_stream_is_exposed() -> None:
    ops = (kernel("f", 2), Collective("r", "send_recv", "ep", 3.0), kernel("g", 5))
    each = {"compute": (Segment(PAIR, ops),)}
    two = program(each, each, groups={"ep": [[0, 1]]})
    assert pair_exposure(simulate(two, star(2))) == pytest.approx(0.3)


def test_no_pairs() -> None:
    assert pair_exposure(simulate(alike(1, {"compute": [kernel("f", 2)]}), star(1))) is None
