"""Times by hand on two ranks, bubbles that add up, uneven stages, property tests."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import ScheduleError
from workloads.schedules import SCHEDULES, Placement, Times
from workloads.schedules.action import parse_order
from workloads.schedules.timing import time_orders

TWO = (parse_order("F0.0 F0.1 BW0.0 BW0.1"), parse_order("F0.0 BW0.0 F0.1 BW0.1"))


def test_two_ranks_by_hand():
    played = time_orders(TWO, Placement("loop", 2), Times(2, 1, 3, 1))
    assert played.starts == ((0, 2, 10, 16), (3, 5, 9, 11))
    assert played.ends == ((2, 4, 14, 20), (5, 9, 11, 15))
    assert (played.makespan, played.span, played.busy) == (20, 20, (12, 12))
    assert played.spans == (20, 12)
    assert played.bubbles[0] == {"warmup": 6, "steady": 0, "drain": 2}
    assert played.bubbles[1] == {"warmup": 3, "steady": 0, "drain": 5}


def test_a_split_backward_lets_the_other_rank_go_on():
    orders = (parse_order("F0.0 B0.0 W0.0"), parse_order("F0.0 B0.0 W0.0"))
    played = time_orders(orders, Placement("loop", 2), Times(1, 1, 5))
    assert played.starts == ((0, 3, 4), (1, 2, 3))


def test_a_pair_waits_for_both_inputs_and_ends_once():
    orders = (parse_order("F0.0 F0.1 BW0.0 BW0.1"), parse_order("F0.0 F0.1&BW0.0 BW0.1"))
    played = time_orders(orders, Placement("loop", 2), Times(1, 1, 1, 0, 2.5))
    assert played.starts[1] == (1, 2, 4.5)
    assert played.starts[0] == (0, 1, 4.5, 6.5)


def test_the_turn_of_a_v_costs_no_hop():
    orders = (parse_order("F0.0 F1.0 BW1.0 BW0.0"), parse_order("F0.0 F1.0 BW1.0 BW0.0"))
    played = time_orders(orders, Placement("v", 2, 2), Times(2, 2, 2, 0.5))  # F 1, BW 2 a chunk
    assert played.starts == ((0, 4, 5, 12), (1.5, 2.5, 7.5, 9.5))


def test_uneven_stages_of_gpipe():
    # sum F_i + (m - 1) max F_i, and the same of the backwards
    scales, m = (1.0, 1.5, 1.0, 1.25), 6
    kind = SCHEDULES["gpipe"]
    orders = kind.generate(num_stages=4, num_microbatches=m)
    played = time_orders(orders, kind.placement(4), Times(), stage_scales=scales)
    assert played.makespan == pytest.approx(3 * (sum(scales) + (m - 1) * max(scales)))


def test_a_heavy_head_of_1f1b():
    kind = SCHEDULES["1f1b"]
    orders = kind.generate(num_stages=8, num_microbatches=32)
    scales = (1.0,) * 7 + (1.25,)
    played = time_orders(orders, kind.placement(8), Times(), stage_scales=scales)
    assert played.makespan == pytest.approx(141)  # sum + (m - 1) max; 117 when even
    with pytest.raises(ScheduleError, match="7 stage scales for 8 stages"):
        time_orders(orders, kind.placement(8), Times(), stage_scales=scales[1:])


def test_orders_that_wait_for_each_other_raise():
    orders = (parse_order("F0.0 BW0.0 F0.1 BW0.1"), parse_order("F0.0 F0.1 BW0.0 BW0.1"))
    with pytest.raises(ScheduleError, match=r"rank 0 at BW0.0 waits for B0.0 of rank 1"):
        time_orders(orders, Placement("loop", 2), Times())


durations = st.floats(0.1, 3.0)


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(set(SCHEDULES) - {"v-half", "v-min"})),
    p=st.sampled_from([2, 4]),
    m=st.sampled_from([8, 12]),
    times=st.builds(Times, durations, durations, durations, st.floats(0.0, 0.5)),
)
def test_what_holds_for_all(name, p, m, times):
    kind = SCHEDULES[name]
    orders = kind.generate(num_stages=p, num_microbatches=m, times=times)
    played = time_orders(orders, kind.placement(p), times)
    work = m * (times.f + times.b + times.w)
    for rank in range(p):
        assert played.busy[rank] == pytest.approx(work)
        idle = sum(played.bubbles[rank].values())
        assert idle == pytest.approx(played.makespan - played.busy[rank], abs=1e-6)
        starts, ends = played.starts[rank], played.ends[rank]
        assert all(end <= start + 1e-9 for end, start in zip(ends, starts[1:], strict=False))
    assert work <= played.span + 1e-6 <= played.makespan + 2e-6
    assert played.bubble_fraction == pytest.approx(1 - work / played.makespan)
