"""Rounds of every algorithm, played on sets of contributors."""

from itertools import product

import pytest

from sim.collectives import ALGORITHMS
from sim.collectives.transfer import check
from sim.errors import CollectiveError

SIZES = [
    (2,),
    (3,),
    (4,),
    (5,),
    (7,),
    (8,),
    (16,),
    (1, 1),
    (2, 2),
    (4, 4),
    (3, 3, 3),
    (2,) * 4,
    (1,) * 5,
    (4,) * 8,
    (5,) * 3,
]
CASES = [
    pytest.param(a, kind, sizes, id=f"{a.name}-{kind}-{'+'.join(map(str, sizes))}")
    for a, sizes in product(ALGORITHMS.values(), SIZES)
    for kind in sorted(a.kinds)
]


@pytest.mark.parametrize(("algorithm", "kind", "sizes"), CASES)
def test_rounds_do_what_the_definition_says(algorithm, kind, sizes):
    try:
        rounds = algorithm.rounds(kind, sum(sizes), sizes)
    except CollectiveError as refusal:
        pytest.skip(str(refusal))
    check(kind, sum(sizes), rounds)


@pytest.mark.parametrize(
    ("algorithm", "kind", "sizes"), [c for c in CASES if sum(c.values[2]) <= 9]
)
def test_a_dropped_transfer_is_noticed(algorithm, kind, sizes):
    try:
        rounds = algorithm.rounds(kind, sum(sizes), sizes)
    except CollectiveError as refusal:
        pytest.skip(str(refusal))
    places = [(r, t) for r, turn in enumerate(rounds) for t in range(len(turn))]
    for r, t in places[:: max(1, len(places) // 12)]:
        broken = list(rounds)
        broken[r] = rounds[r][:t] + rounds[r][t + 1 :]
        with pytest.raises(CollectiveError):
            check(kind, sum(sizes), broken)
