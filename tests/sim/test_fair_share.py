"""Max-min fair rates: by hand, and what no solution may break."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.network.fair_share import fair_rates, fair_rates_few
from sim.network.shared import Flow, Shared


def few(ceilings, uses, capacity, weights=None):
    return fair_rates_few(ceilings, weights or [1.0] * len(ceilings), uses, capacity)


def many(ceilings, uses, capacity, weights=None):
    rows = [(a, r, load) for a, use in enumerate(uses) for r, load in use]
    activity, resource, load = (
        (np.array(c) for c in zip(*rows, strict=True)) if rows else ([], [], [])
    )
    return fair_rates(
        ceiling=np.array(ceilings, float),
        weight=np.array(weights or [1.0] * len(ceilings), float),
        activity=np.array(activity, int),
        resource=np.array(resource, int),
        load=np.array(load, float),
        capacity=np.array(capacity, float),
    ).tolist()


BOTH = pytest.mark.parametrize("solve", [few, many])
FREE = 1e9


@BOTH
def test_one_activity_has_all_it_can_use(solve) -> None:
    assert solve([3.0], [[(0, 1.0)]], [10.0]) == [3.0]
    assert solve([FREE], [[(0, 2.0)]], [10.0]) == [5.0]


@BOTH
def test_equals_share_equally(solve) -> None:
    assert solve([FREE] * 4, [[(0, 1.0)]] * 4, [10.0]) == [2.5] * 4


@BOTH
def test_what_one_cannot_use_goes_to_the_others(solve) -> None:
    assert solve([1.0, FREE, FREE], [[(0, 1.0)]] * 3, [10.0]) == [1.0, 4.5, 4.5]


@BOTH
def test_the_line_of_the_textbook(solve) -> None:
    """A long flow over three links and one short on each: the long one has half of the tightest.

    Links of 10, 4 and 8: level 2 fills the second; the short ones rise to 8 and 6 (Bertsekas and Gallager, 6.5.2).
    """
    uses = [[(0, 1.0), (1, 1.0), (2, 1.0)], [(0, 1.0)], [(1, 1.0)], [(2, 1.0)]]
    assert solve([FREE] * 4, uses, [10.0, 4.0, 8.0]) == [2.0, 8.0, 2.0, 6.0]


@BOTH
def test_weights_are_flows(solve) -> None:
    """Two flows against one on a link of 9: work rates 6 and 3."""
    assert solve([FREE] * 2, [[(0, 1.0)]] * 2, [9.0], [2.0, 1.0]) == [6.0, 3.0]


@BOTH
def test_loads_scale_what_a_rate_takes(solve) -> None:
    """Equal rates of 3: one of them puts two bytes on the link for each of its own."""
    assert solve([FREE] * 2, [[(0, 2.0)], [(0, 1.0)]], [9.0]) == [3.0, 3.0]


@BOTH
def test_an_activity_without_resources_runs_at_its_ceiling(solve) -> None:
    assert solve([7.0, FREE], [[], [(0, 1.0)]], [4.0]) == [7.0, 4.0]


@st.composite
def networks(draw):
    num_resources = draw(st.integers(1, 5))
    amount = st.floats(0.1, 10.0)
    capacity = draw(st.lists(amount, min_size=num_resources, max_size=num_resources))
    num = draw(st.integers(1, 8))
    uses = [
        [
            (r, draw(amount))
            for r in sorted(draw(st.sets(st.integers(0, num_resources - 1), max_size=4)))
        ]
        for _ in range(num)
    ]
    ceilings = draw(st.lists(amount, min_size=num, max_size=num))
    weights = draw(st.lists(amount, min_size=num, max_size=num))
    return ceilings, uses, capacity, weights


@settings(max_examples=150, deadline=None)
@given(networks())
def test_both_solvers_agree(network) -> None:
    assert few(*network) == pytest.approx(many(*network), rel=1e-9)


@settings(max_examples=150, deadline=None)
@given(networks())
def test_no_resource_is_overfull_and_everybody_has_a_bottleneck(network) -> None:
    """Max-min: who is below its ceiling crosses a full resource on which nobody has a higher level."""
    ceilings, uses, capacity, weights = network
    rates = many(*network)
    used = np.zeros(len(capacity))
    for rate, use in zip(rates, uses, strict=True):
        for r, load in use:
            used[r] += rate * load
    assert (used <= np.array(capacity) * (1 + 1e-9)).all()
    level = [rate / weight for rate, weight in zip(rates, weights, strict=True)]
    for a, (rate, use) in enumerate(zip(rates, uses, strict=True)):
        assert 0 < rate <= ceilings[a] * (1 + 1e-9)
        if rate >= ceilings[a] * (1 - 1e-9):
            continue
        assert any(
            used[r] >= capacity[r] * (1 - 1e-9)
            and all(
                level[b] <= level[a] * (1 + 1e-9)
                for b, other in enumerate(uses)
                if r in dict(other)
            )
            for r, _ in use
        )


# The activities that are there now


def flow(ceiling, *uses, weight=1.0):
    return Flow(ceiling, weight, tuple(uses))


def test_a_lone_flow_needs_no_solution() -> None:
    shared = Shared([4.0])
    one = flow(9.0, (0, 1.0))
    assert shared.start(one) == [one]
    assert one.rate == 4.0


def test_coming_and_going_changes_the_rates_of_neighbours_only() -> None:
    shared = Shared([4.0, 6.0])
    a, b, c = flow(9.0, (0, 1.0)), flow(9.0, (0, 1.0)), flow(9.0, (1, 1.0))
    shared.start(a)
    shared.start(c)
    assert set(shared.start(b)) == {a, b}
    assert (a.rate, b.rate, c.rate) == (2.0, 2.0, 6.0)
    assert shared.stop(a) == [b]
    assert b.rate == 4.0
    assert shared.stop(b) == []


def test_flows_are_reached_through_what_they_share() -> None:
    """a and c share nothing, but b crosses both: when b leaves, both have more."""
    shared = Shared([4.0, 6.0])
    a, b, c = flow(9.0, (0, 1.0)), flow(9.0, (0, 1.0), (1, 1.0)), flow(9.0, (1, 1.0))
    for each in (a, c, b):
        shared.start(each)
    assert (a.rate, b.rate, c.rate) == (2.0, 2.0, 4.0)
    assert set(shared.stop(b)) == {a, c}
    assert (a.rate, c.rate) == (4.0, 6.0)


def test_many_flows_are_solved_as_few_are() -> None:
    """More flows than are solved one by one."""
    shared = Shared([60.0, 30.0])
    flows = [flow(FREE, (0, 1.0)) for _ in range(20)] + [
        flow(FREE, (0, 1.0), (1, 1.0)) for _ in range(20)
    ]
    for each in flows:
        shared.start(each)
    assert [f.rate for f in flows] == pytest.approx([1.5] * 40)


def test_a_new_capacity_is_shared_anew() -> None:
    shared = Shared([4.0])
    a, b = flow(9.0, (0, 1.0)), flow(1.0, (0, 1.0))
    shared.start(a)
    shared.start(b)
    assert (a.rate, b.rate) == (3.0, 1.0)
    shared.set_capacity(0, 1.0)
    assert (a.rate, b.rate) == (0.5, 0.5)
