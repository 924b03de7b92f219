"""Links become resources: equal ones are one, those that cannot bind are none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.network.fair_share import fair_rates_few
from sim.network.resources import reduce_links


def pattern(loads):
    links = np.flatnonzero(loads)
    return links, np.array(loads, float)[links]


def test_links_loaded_alike_are_one_resource() -> None:
    uses, capacity, _ = reduce_links([pattern([1, 1, 1]), pattern([2, 2, 2])], np.full(3, 5.0))
    assert capacity == [5.0]
    assert uses == [((0, 1.0),), ((0, 2.0),)]


def test_a_link_that_never_binds_drops_out() -> None:
    """The second carries the same and is wider."""
    uses, capacity, _ = reduce_links([pattern([1, 1])], np.array([5.0, 9.0]))
    assert capacity == [5.0]
    assert uses == [((0, 1.0),)]


def test_a_wider_link_with_more_traffic_stays() -> None:
    """Two patterns on links of their own and one they share, wider but carrying both."""
    uses, capacity, _ = reduce_links(
        [pattern([1, 0, 1]), pattern([0, 1, 1])], np.array([5.0, 5.0, 8.0])
    )
    assert sorted(capacity) == [5.0, 5.0, 8.0]
    assert [len(u) for u in uses] == [2, 2]


def test_links_that_will_change_stay_themselves() -> None:
    """Link 1 can never bind as it is, link 0 is like link 2; both were asked for."""
    uses, capacity, kept = reduce_links(
        [pattern([1, 1, 1])], np.array([5.0, 9.0, 5.0]), keep=[0, 1]
    )
    assert set(kept) == {0, 1}
    assert [capacity[kept[i]] for i in (0, 1)] == [5.0, 9.0]
    assert sorted(capacity) == [5.0, 5.0, 9.0], "link 2 still binds when link 0 gets faster"
    assert len(uses[0]) == 3


def test_a_kept_link_nobody_uses_is_no_resource() -> None:
    _, _, kept = reduce_links([pattern([1, 0])], np.array([5.0, 5.0]), keep=[1])
    assert kept == {}


def test_nothing_used_is_nothing() -> None:
    assert reduce_links([], np.array([1.0])) == ([], [], {})


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000))
def test_rates_are_those_of_all_links(seed) -> None:
    """Whatever runs at once, the reduced resources give the rates that all links would."""
    random = np.random.default_rng(seed)
    num_links, num = int(random.integers(1, 12)), int(random.integers(1, 5))
    capacity = random.choice([1.0, 2.0, 4.0], num_links)
    loads = random.choice([0.0, 0.0, 1.0, 2.0], (num, num_links))
    loads[:, 0] += 1.0
    uses, reduced, _ = reduce_links([pattern(row) for row in loads], capacity)
    whole = [tuple((int(i), float(row[i])) for i in np.flatnonzero(row)) for row in loads]
    assert len(reduced) <= num_links
    for mask in range(1, 2**num):
        chosen = [i for i in range(num) if mask >> i & 1]
        ceilings, weights = [50.0] * len(chosen), [1.0] * len(chosen)
        mine = fair_rates_few(ceilings, weights, [uses[i] for i in chosen], reduced)
        exact = fair_rates_few(ceilings, weights, [whole[i] for i in chosen], capacity.tolist())
        assert mine == pytest.approx(exact, rel=1e-9)
