"""Every schedule: legal at every size, its own rule, its closed form (see each file's docstring)."""

import pytest

from sim.errors import ScheduleError
from workloads.schedules import SCHEDULES, Placement, Times, find_schedule
from workloads.schedules.action import parse_entry
from workloads.schedules.check import check_orders
from workloads.schedules.timing import ScheduleTimes, time_orders

NAMES = (
    *("naive", "gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-1p", "zb-2p"),
    *("interleaved-zb", "zb-v", "zb-v-greedy", "v-half", "v-min", "dualpipe", "dualpipev"),
)
ANY_SIZE = [n for n in NAMES if n not in ("interleaved", "interleaved-zb", "dualpipe", "dualpipev")]


def play(name: str, p: int, m: int, times: Times | None = None, **options: float) -> ScheduleTimes:
    times = times or Times()
    kind = SCHEDULES[name]
    orders = kind.generate(num_stages=p, num_microbatches=m, times=times, **options)
    return time_orders(orders, kind.placement(p, options.get("chunks")), times)


def test_the_names_are_those_of_the_contract():
    assert sorted(SCHEDULES) == sorted(NAMES)


@pytest.mark.parametrize("name", ANY_SIZE)
@pytest.mark.parametrize(("p", "m"), [(1, 1), (1, 4), (2, 1), (3, 2), (4, 3), (4, 7), (5, 11)])
def test_legal_at_any_size(name, p, m):
    kind = SCHEDULES[name]
    times = Times(1.0, 1.5, 0.5, 0.1)
    orders = kind.generate(num_stages=p, num_microbatches=m, times=times)
    check_orders(orders, kind.placement(p), m)


@pytest.mark.parametrize(
    ("name", "p", "m"),
    [("interleaved", 4, 10), ("interleaved-zb", 3, 2), ("dualpipe", 4, 8), ("dualpipev", 3, 7)],
)
def test_legal_where_the_rule_holds(name, p, m):
    kind = SCHEDULES[name]
    check_orders(kind.generate(num_stages=p, num_microbatches=m), kind.placement(p), m)


@pytest.mark.parametrize(
    ("name", "p", "m", "makespan"),
    [
        ("1f1b", 4, 8, 33),  # (m + p - 1) * 3
        ("gpipe", 4, 8, 33),
        ("naive", 4, 2, 24),  # m p * 3
        ("interleaved", 4, 8, 24 + 9 / 2),  # (p - 1) * 3 / v
        ("bfs", 4, 8, 24 + 9 / 2),
        ("zb-h1", 8, 32, 96 + 7),  # (p - 1)(F + B - W)
        ("zb-1p", 8, 32, 96 + 7),
        ("zb-h2", 8, 32, 96 + 7),  # (p - 1) max(F, ...)
        ("interleaved-zb", 4, 8, 24 + 3 / 2),
        ("zb-v", 4, 8, 24 + 3 / 2),
        ("zb-v-greedy", 4, 8, 24 + 3 / 2),
        ("v-half", 8, 16, 48 + 17 / 2),  # (3p - 7) F / 2
        ("v-min", 8, 16, 48 + 27 / 2),  # (4p - 5) F / 2
    ],
)
def test_makespans_in_closed_form(name, p, m, makespan):
    assert play(name, p, m).makespan == pytest.approx(makespan)


@pytest.mark.parametrize("comm", [0.01, 0.3])
@pytest.mark.parametrize(("p", "m"), [(4, 8), (4, 9), (8, 16)])
def test_hops_in_closed_form(comm, p, m):
    times = Times(1, 1, 1, comm)
    assert play("gpipe", p, m, times).makespan == pytest.approx(
        3 * (m + p - 1) + 2 * (p - 1) * comm
    )
    q, r = divmod(m - 1, p)
    k = 2 * (p - 1) * (1 + q) + 2 * max(0, r - 1)
    assert play("1f1b", p, m, times).makespan == pytest.approx(3 * (m + p - 1) + k * comm)
    assert play("naive", p, m, times).makespan == pytest.approx(3 * m * p + 2 * m * (p - 1) * comm)


@pytest.mark.parametrize("times", [Times(1, 1.2, 0.8), Times(2, 1.5, 1), Times(1, 2, 0.5)])
def test_unequal_costs_in_closed_form(times):
    f, b, w, p = times.f, times.b, times.w, 4
    bubble = play("zb-h1", p, 9, times).makespan_bubble
    assert bubble == pytest.approx((p - 1) * max(f + b - w, f, b))
    bubble = play("zb-h2", p, 9, times).span_bubble
    assert bubble == pytest.approx((p - 1) * max(f + b - 2 * w, b - f, 0))
    total = f + b + w
    assert play("interleaved", p, 8, times, chunks=3).makespan_bubble == pytest.approx(total)
    if w <= f <= b:
        bubble = play("interleaved-zb", p, 8, times).makespan_bubble
        assert bubble == pytest.approx((p - 1) * (f + b - w) / 2)
        assert play("zb-v", p, 9, times).span_bubble == pytest.approx((p - 1) * (b - w))


@pytest.mark.parametrize("saved", [0.0, 1.0])
@pytest.mark.parametrize(("f", "w"), [(1.0, 1.0), (1.2, 0.7)])
def test_dualpipe_idle_time(f, w, saved):
    # the most idle rank, F = B >= W: (PP/2 - 1)(F&B + B_full - 3W)
    pair = 2 * f + w - saved
    times = Times(f, f, w, 0.0, pair)
    for stages, m in ((4, 8), (8, 20)):
        expected = (stages / 2 - 1) * (pair + f + w - 3 * w)
        assert play("dualpipe", stages, m, times).makespan_bubble == pytest.approx(expected)
        half = Times(2 * f, 2 * f, 2 * w, 0.0, 2 * pair)  # a rank has two of the stages
        assert play("dualpipev", stages // 2, m, half).makespan_bubble == pytest.approx(expected)


def test_activation_peaks():
    assert play("1f1b", 4, 8).peak_activations == (4, 3, 2, 1)
    assert play("gpipe", 4, 8).peak_activations == (8, 8, 8, 8)
    assert play("interleaved", 4, 8).peak_activations == (5.5, 4.5, 3.5, 2.5)
    assert play("zb-h1", 4, 8).peak_activations_w == (4, 4, 4, 4)
    assert play("zb-h2", 4, 8).peak_activations == (7, 5, 3, 1)
    assert play("zb-v", 4, 8).peak_activations_w == (4, 4, 4, 4)
    assert max(play("v-half", 4, 8).peak_activations_w) == 3
    assert max(play("v-min", 4, 8).peak_activations_w) == 2
    assert max(play("dualpipe", 8, 20).peak_activations) == 9
    assert max(play("dualpipev", 4, 10).peak_activations) == 4.5


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("dualpipe", {"num_stages": 3, "num_microbatches": 8}, "choose 2 or 4"),
        ("dualpipe", {"num_stages": 4, "num_microbatches": 9}, "microbatches=8 or 10"),
        ("dualpipe", {"num_stages": 4, "num_microbatches": 6}, "microbatches=8"),
        ("dualpipev", {"num_stages": 4, "num_microbatches": 7}, "microbatches=8"),
        ("interleaved", {"num_stages": 4, "num_microbatches": 9}, "8 or 10, or group_size=5"),
        ("interleaved", {"num_stages": 4, "num_microbatches": 9, "group_size": 4}, "5 or 9"),
        ("zb-v", {"num_stages": 4, "num_microbatches": 9, "chunks": 3}, "chunks=2"),
        ("1f1b", {"num_stages": 4, "num_microbatches": 9, "chunks": 2}, "chunks=1"),
        ("1f1b", {"num_stages": 4, "num_microbatches": 9, "weight_memory": 0.5}, "no option"),
        ("gpipe", {"num_stages": 0, "num_microbatches": 9}, "at least 1"),
        ("gpipe", {"num_stages": 2, "num_microbatches": 0}, "at least 1"),
        ("zb-1p", {"num_stages": 4, "num_microbatches": 9, "memory_limit": 0.5}, "at least 1"),
        ("zb-v-greedy", {"num_stages": 8, "num_microbatches": 9, "memory_limit": 1}, "or more"),
    ],
)
def test_a_broken_rule_names_the_nearest_legal_values(name, options, words):
    with pytest.raises(ScheduleError, match=words):
        SCHEDULES[name].generate(**options)


def test_unknown_names_suggest_near_ones():
    with pytest.raises(ScheduleError, match="did you mean '1f1b'"):
        find_schedule("1f1")


def test_times_must_be_durations():
    with pytest.raises(ScheduleError, match="COMM=-1"):
        Times(1, 1, 1, -1)
    with pytest.raises(ScheduleError, match="all 0"):
        Times(0, 0, 0)


@pytest.mark.parametrize("kind", ["loop", "v", "bidir"])
def test_placement_and_its_inverse(kind):
    placement = Placement(kind, 4, 2)
    for direction in range(placement.num_directions):
        for stage in range(placement.num_stages):
            rank, chunk = placement.locate(stage, direction)
            assert placement.stage(rank, chunk) == stage
            after = placement.next(rank, chunk)
            assert (after is None) == (stage == placement.num_stages - 1)
            if after is not None:
                assert placement.previous(*after) == (rank, chunk)
    assert placement.num_hops == {"loop": 7, "v": 6, "bidir": 3}[kind]


def test_tokens_parse_and_print():
    entry = parse_entry("F0.3&BW1.12")
    assert [str(token) for token in entry] == ["F0.3", "BW1.12"]
    for wrong in ("F0", "X0.1", "F0.1&B0.1&W0.1", "f0.1"):
        with pytest.raises(ScheduleError):
            parse_entry(wrong)


def test_searched_schedules_keep_a_given_limit():
    times = Times(1, 1.2, 0.8, 0.05)
    for limit in (2, 3, 6):
        assert max(play("zb-1p", 4, 12, times, memory_limit=limit).peak_activations_w) <= limit
    for limit in (2, 3, 4, 6):
        played = play("zb-v-greedy", 4, 12, times, memory_limit=limit)
        assert max(played.peak_activations_w) <= limit
    spans = [play("zb-1p", 4, 12, times, memory_limit=limit).span for limit in (4, 5, 6, 7, 8)]
    assert spans == sorted(spans, reverse=True)
