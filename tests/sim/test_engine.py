"""The replay by hand: kernels of whole seconds, links of one byte a second, exact spans."""

from dataclasses import replace

import numpy as np
import pytest
import simpy

import sim.engine
from sim.cluster import LinkKind
from sim.engine import LinkChange, simulate
from sim.errors import DeadlockError, ProgramError
from sim.kernels import kernel_time
from sim.kernels.shapes import Gemm
from sim.memory import memory_peak
from sim.program import (
    Action,
    Allocate,
    Collective,
    Compute,
    Free,
    Recv,
    Segment,
    Send,
    Signal,
    Sync,
    Wait,
)
from tests.sim.hand_made import UNIT, alike, bars, kernel, pods, program, spans, star
from tests.workloads.toy import toy_program
from workloads.schedules import SCHEDULES, Times

NEXT = {"pp.next": [1, -1]}


def ring(name, seconds, **more):
    """A send_recv around the pair (0, 1) that takes ``seconds`` at one byte a second."""
    return Collective(name, "send_recv", "pair", float(seconds), **more)


# Streams and semaphores


def test_kernels_of_a_stream_follow_each_other() -> None:
    two = program({"compute": [kernel("a", 2), kernel("b", 3)]}, {"compute": [kernel("c", 1)]})
    timeline = simulate(two, star(2))
    assert bars(timeline, 0) == [("a", 0, 2), ("b", 2, 5)]
    assert bars(timeline, 1) == [("c", 0, 1)]
    assert timeline.step_time == 5
    assert timeline.num_spans == 3


def test_a_semaphore_holds_a_stream_until_another_signals() -> None:
    one = program(
        {
            "x": [kernel("a", 2), kernel("b", 1, signals=("go",))],
            "y": [Collective("c", "send_recv", "pair", 4.0, waits=("go",))],
        },
        {"y": [ring("c", 4)]},
        groups={"pair": [[0, 1]]},
    )
    timeline = simulate(one, star(2))
    assert bars(timeline, 0, "y") == [("c", 3, 7)]
    assert spans(timeline, 1) == [("c", 0, 3, 7)], "posted at 0, started when both were there"


def test_prefetch_depth_limits_how_far_a_stream_runs_ahead() -> None:
    """Two credits; the consumer takes 10 s and gives one back after each use."""
    use = [
        op for i in range(3) for op in (Wait(("here",)), ring(f"use{i}", 10), Signal(("credit",)))
    ]
    fetch = [
        op for i in range(3) for op in (Wait(("credit",)), kernel(f"get{i}", 1, signals=("here",)))
    ]
    both = alike(2, {"use": use, "fetch": fetch}, {"pair": [[0, 1]]}, semaphores={"credit": 2})
    timeline = simulate(both, star(2))
    assert bars(timeline, 0, "fetch") == [("get0", 0, 1), ("get1", 1, 2), ("get2", 11, 12)]
    assert bars(timeline, 0, "use") == [("use0", 1, 11), ("use1", 11, 21), ("use2", 21, 31)]


def test_what_a_kernel_starts_runs_beside_it() -> None:
    one = alike(
        2,
        {
            "compute": [
                kernel("before", 1),
                kernel("a", 5, starts=("go",)),
                Wait(("there",)),
                kernel("b", 1),
            ],
            "comm": [ring("c", 7, waits=("go",), signals=("there",))],
        },
        {"pair": [[0, 1]]},
    )
    timeline = simulate(one, star(2))
    assert bars(timeline, 0, "compute") == [("before", 0, 1), ("a", 1, 6), ("b", 8, 9)]
    assert bars(timeline, 0, "comm") == [("c", 1, 8)]


def test_kernels_of_two_streams_share_the_device() -> None:
    """Both at half speed until the shorter is done (2 s of work at 1/2), then the longer alone."""
    one = program({"x": [kernel("a", 2)], "y": [kernel("b", 5)]})
    timeline = simulate(one, star(1))
    assert bars(timeline, 0, "x") == [("a", 0, 4)]
    assert bars(timeline, 0, "y") == [("b", 0, 7)]


# The host


def test_a_slow_host_leaves_gaps() -> None:
    one = program({"compute": [kernel("a", 1), kernel("b", 1)]})
    assert bars(simulate(one, star(1), launch=2.0), 0) == [("a", 2, 3), ("b", 4, 5)]


def test_a_host_ahead_of_the_device_leaves_none() -> None:
    one = program({"compute": [kernel("a", 3), kernel("b", 3), kernel("c", 3)]})
    timeline = simulate(one, star(1), launch=2.0)
    assert bars(timeline, 0) == [("a", 2, 5), ("b", 5, 8), ("c", 8, 11)]


def test_an_op_of_several_launches_costs_the_host_each() -> None:
    one = program({"compute": [kernel("a", 1, launches=3)]})
    assert bars(simulate(one, star(1), launch=2.0), 0) == [("a", 6, 7)]


def test_a_host_that_waits_for_the_device_loses_its_lead() -> None:
    """Without the wait b would start at 11; with it the host launches b only then."""
    ahead = program({"compute": [kernel("a", 10), kernel("b", 1)]})
    waits = program({"compute": [kernel("a", 10), Sync(), kernel("b", 1)]})
    assert bars(simulate(ahead, star(1), launch=1.0), 0) == [("a", 1, 11), ("b", 11, 12)]
    assert bars(simulate(waits, star(1), launch=1.0), 0) == [("a", 1, 11), ("b", 12, 13)]


# Memory


def test_memory_is_taken_and_given_back_when_the_stream_passes() -> None:
    one = program(
        {
            "compute": [
                Allocate("activations", 5.0),
                kernel("a", 2),
                Allocate("logits", 7.0),
                kernel("b", 3),
                Free("activations", 5.0),
            ]
        }
    )
    (record,) = simulate(one, star(1)).streams
    assert record.memory == [(0, "activations", 5), (2, "logits", 7), (5, "activations", -5)]


# Meetings and messages


def test_a_collective_starts_when_the_last_member_is_there() -> None:
    two = program(
        {"compute": [kernel("a", 1), ring("r", 3)]},
        {"compute": [kernel("b", 4), ring("r", 3)]},
        groups={"pair": [[0, 1]]},
    )
    timeline = simulate(two, star(2))
    assert spans(timeline, 0) == [("a", 0, 0, 1), ("r", 1, 4, 7)]
    assert spans(timeline, 1) == [("b", 0, 0, 4), ("r", 4, 4, 7)]


def test_collectives_of_two_streams_do_not_mix_up() -> None:
    """Streams of one name meet; sizes would disagree if they crossed."""
    two = program(
        {"x": [ring("a", 2)], "y": [kernel("k", 9), ring("b", 4)]},
        {"y": [ring("b", 4)], "x": [kernel("k", 5), ring("a", 2)]},
        groups={"pair": [[0, 1]]},
    )
    timeline = simulate(two, star(2))
    assert bars(timeline, 0, "x") == bars(timeline, 1, "x")[1:] == [("a", 5, 7)]
    assert bars(timeline, 0, "y")[1:] == bars(timeline, 1, "y") == [("b", 9, 13)]


def test_an_eager_message_travels_before_it_is_asked_for() -> None:
    two = program(
        {"send": [Send("s", "pp.next", 3.0)]},
        {"compute": [kernel("a", 5), Recv("r", "pp.next", 3.0), kernel("b", 1)]},
        peers=NEXT,
    )
    timeline = simulate(two, star(2))
    assert bars(timeline, 0) == [("s", 0, 3)]
    assert bars(timeline, 1) == [("a", 0, 5), ("r", 5, 5), ("b", 5, 6)]


def test_a_receive_waits_for_its_message() -> None:
    two = program(
        {"compute": [kernel("a", 2), Send("s", "pp.next", 3.0)]},
        {"compute": [Recv("r", "pp.next", 3.0), kernel("b", 1)]},
        peers=NEXT,
    )
    timeline = simulate(two, star(2))
    assert spans(timeline, 0) == [("a", 0, 0, 2), ("s", 2, 2, 5)]
    assert spans(timeline, 1) == [("r", 0, 2, 5), ("b", 5, 5, 6)]


def test_a_blocking_message_waits_for_the_receive() -> None:
    two = program(
        {"compute": [Send("s", "pp.next", 3.0, blocking=True), kernel("after", 1)]},
        {"compute": [kernel("a", 5), Recv("r", "pp.next", 3.0)]},
        peers=NEXT,
    )
    timeline = simulate(two, star(2))
    assert spans(timeline, 0) == [("s", 0, 5, 8), ("after", 8, 8, 9)]
    assert spans(timeline, 1) == [("a", 0, 0, 5), ("r", 5, 5, 8)]


def test_messages_are_matched_by_their_tag_not_by_order() -> None:
    first, second = Action("F", 1, 0, 0), Action("F", 1, 0, 1)
    send, recv = Send("s", "pp.next", 2.0), Recv("r", "pp.next", 2.0)
    two = program(
        {"send": (Segment(first, (send,)), Segment(second, (send,)))},
        {"recv": (Segment(second, (recv,)), Segment(first, (recv,)))},
        peers=NEXT,
    )
    timeline = simulate(two, star(2))
    assert bars(timeline, 1) == [("r", 2, 4), ("r", 4, 4)]


def test_latency_comes_before_the_bytes() -> None:
    two = program(
        {"send": [Send("s", "pp.next", 3.0)]}, {"recv": [Recv("r", "pp.next", 3.0)]}, peers=NEXT
    )
    assert bars(simulate(two, star(2, latency=2.0)), 1) == [("r", 0, 5)]


# Sharing


def two_sends(first, second, later=0):
    """Rank 0 sends to ranks 1 and 2 from two streams, the second ``later``."""
    return program(
        {
            "a": [Send("s", "x", float(first))],
            "b": [*([kernel("k", later)] if later else []), Send("t", "y", float(second))],
        },
        {"a": [Recv("s", "x", float(first))]},
        {"b": [Recv("t", "y", float(second))]},
        peers={"x": [1, -1, -1], "y": [2, -1, -1]},
    )


def test_two_messages_on_one_link_have_half_each() -> None:
    """4 and 2 bytes at 1/2 byte/s: the short one is through at 4; the other's last 2 bytes take 2 s."""
    timeline = simulate(two_sends(4, 2), star(3))
    assert bars(timeline, 0, "a") == [("s", 0, 6)]
    assert bars(timeline, 0, "b") == [("t", 0, 4)]


def test_a_message_that_joins_later_slows_the_first_from_then_on() -> None:
    """6 bytes alone for 2 s; 4 left at 1/2: both have 4 bytes and end together at 10."""
    timeline = simulate(two_sends(6, 4, later=2), star(3))
    assert bars(timeline, 0, "a") == [("s", 0, 10)]
    assert bars(timeline, 0, "b") == [("k", 0, 2), ("t", 2, 10)]


def test_messages_that_do_not_fill_a_link_do_not_slow_each_other() -> None:
    """Each is held to 1 byte/s by its own last link; the shared uplink carries 2."""
    cluster = star(3)
    cluster = cluster.with_bandwidth("d0->switch", 2.0)
    timeline = simulate(two_sends(4, 2), cluster)
    assert bars(timeline, 0, "a") == [("s", 0, 4)]
    assert bars(timeline, 0, "b") == [("t", 0, 2)]


def test_a_message_that_only_waits_out_its_latency_slows_nobody() -> None:
    """Two seconds of latency each: s moves its 4 bytes from 2 to 6, t its 2 bytes from 6 to 8."""
    timeline = simulate(two_sends(4, 2, later=4), star(3, latency=2.0))
    assert bars(timeline, 0, "a") == [("s", 0, 6)]
    assert bars(timeline, 0, "b") == [("k", 0, 4), ("t", 4, 8)]


def test_what_a_slow_link_leaves_goes_to_the_other_message() -> None:
    """The first cannot pass 1/4; the other takes 3/4 of the shared link, not 1/2."""
    cluster = star(3).with_bandwidth("switch->d1", 0.25)
    timeline = simulate(two_sends(2, 3), cluster)
    assert bars(timeline, 0, "a") == [("s", 0, 8)]
    assert bars(timeline, 0, "b") == [("t", 0, 4)]


def test_sharing_is_fair_over_flows() -> None:
    """An all-to-all of 3 sends two flows over each uplink, a message one: 2/3 and 1/3 of the link.

    Of 3 bytes a device, 2 cross its uplink: 3 s at 2/3 byte/s; the message moves 1 byte meanwhile and
    ends with the last of its 3 bytes at 1 byte/s.
    """
    swap = Collective("swap", "all_to_all", "all", 3.0)
    three = program(
        {"c": [swap], "s": [Send("s", "x", 3.0)]},
        {"c": [swap], "s": [Recv("s", "x", 3.0)]},
        {"c": [swap]},
        groups={"all": [[0, 1, 2]]},
        peers={"x": [1, -1, -1]},
    )
    timeline = simulate(three, star(3))
    for rank in range(3):
        assert bars(timeline, rank, "c") == [("swap", 0, pytest.approx(3.0, rel=1e-12))]
    assert bars(timeline, 0, "s") == [("s", 0, pytest.approx(5.0, rel=1e-12))]


def test_two_groups_share_the_uplink_they_both_cross() -> None:
    """Pairs across two pods: alone 1 byte/s each, together half the uplink of 1."""
    pair = Collective("r", "send_recv", "pair", 3.0)
    four = alike(4, {"c": [pair]}, {"pair": [[0, 2], [1, 3]]})
    timeline = simulate(four, pods([2, 2]))
    assert bars(timeline, 0) == [("r", 0, 6)]
    wide = simulate(four, pods([2, 2], uplink=2.0))
    assert bars(wide, 0) == [("r", 0, 3)]


# A link that changes on the way


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ([], (10, 20)),
        ([(4, 0.5)], (16, 36)),
        ([(4, 2.0)], (7, 12)),
        ([(4, 0.5), (8, 2.0)], (10, 15)),
        ([(12, 0.25)], (10, 44)),
    ],
)
def test_a_change_of_bandwidth_counts_from_its_time_on(changes, ends) -> None:
    """Two transfers of 10 bytes after each other; every link changes, 6 bytes are left at 4 s."""
    two = alike(2, {"c": [ring("x", 10), ring("y", 10)]}, {"pair": [[0, 1]]})
    cluster = star(2)
    every = [LinkChange(t, link, b) for t, b in changes for link in range(cluster.num_links)]
    timeline = simulate(two, cluster, changes=every)
    assert bars(timeline, 0) == [("x", 0, ends[0]), ("y", ends[0], ends[1])]


def test_a_faster_link_gives_way_to_the_next_tightest() -> None:
    two = alike(2, {"c": [ring("x", 10)]}, {"pair": [[0, 1]]})
    faster = [LinkChange(4, 0, 8.0)]
    assert bars(simulate(two, star(2), changes=faster), 0) == [("x", 0, 10)]
    others = [LinkChange(0, link, 8.0) for link in range(1, 4)]
    assert bars(simulate(two, star(2), changes=[*faster, *others]), 0) == [("x", 0, 4.75)]


def test_a_change_of_a_link_reaches_only_who_crosses_it() -> None:
    pair = Collective("r", "send_recv", "pair", 4.0)
    four = alike(4, {"c": [pair]}, {"pair": [[0, 1], [2, 3]]})
    cluster = star(4)
    change = LinkChange(2, cluster.link_index["d3->switch"], 0.5)
    timeline = simulate(four, cluster, changes=[change])
    assert [bars(timeline, rank)[0][2] for rank in range(4)] == [4, 4, 6, 6]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (LinkChange(1.0, 99, 1.0), r"link 99 does not exist in graph; choose from 0 to 3"),
        (
            LinkChange(1.0, 0, 0.0),
            r"d0->switch gets bandwidth=0.0 at time=1.0; give bytes/s above 0",
        ),
        (LinkChange(-1.0, 0, 1.0), r"time=-1.0; give bytes/s above 0 and seconds from 0"),
    ],
)
def test_a_change_that_cannot_be_is_refused(change, message) -> None:
    two = alike(2, {"c": [ring("x", 10)]}, {"pair": [[0, 1]]})
    with pytest.raises(ProgramError, match=message):
        simulate(two, star(2), changes=[change])


# Communication on the device


BUSY = replace(
    UNIT,
    calibration={
        **UNIT.calibration, "gemm.sustained": 1.0, "gemm.start": 0.0, "gemm.fill": 0.0, "gemm.edge": 0.0,
        "gemm.cache": 1e30, "gemm.bandwidth": 1e30, "gemm.exposed": 0.0,
        "tile.smallest": 4096.0, "tile.largest": 4096.0,
    },
)  # fmt: skip


def taking(units=0.0, n=2):
    """A star whose links take ``units`` of the 10 compute units of a device; memory bandwidth is plenty."""
    kind = LinkKind(name="link", constants={"units": units})
    return replace(star(n, device=BUSY), link_kinds=(kind,))


def test_communication_slows_a_product_by_the_units_it_holds() -> None:
    """Half the units are gone for the first 8 s: 4 s of work done by then, the rest at full speed."""
    product = Gemm(64, 64, 10)
    alone = kernel_time(product, taking().device(0))
    cluster = taking(5.0)
    held = alone / 2
    beside = alike(
        2,
        {"compute": [Compute("p", product)], "comm": [ring("c", held)]},
        {"pair": [[0, 1]]},
    )
    timeline = simulate(beside, cluster)
    ((_, _, end),) = bars(timeline, 0, "compute")
    assert end == pytest.approx(held + (alone - held / 2), rel=1e-5)
    after = alike(2, {"compute": [ring("c", held), Compute("p", product)]}, {"pair": [[0, 1]]})
    ((_, _, begun), (_, start, end)) = bars(simulate(after, cluster), 0)
    assert end - start == pytest.approx(alone, rel=1e-12)
    assert start == begun


def test_links_that_hold_no_units_slow_nothing() -> None:
    product = Gemm(64, 64, 10)
    alone = kernel_time(product, taking().device(0))
    beside = alike(
        2, {"compute": [Compute("p", product)], "comm": [ring("c", alone)]}, {"pair": [[0, 1]]}
    )
    assert bars(simulate(beside, taking(0.0)), 0, "compute") == [
        ("p", 0, pytest.approx(alone, rel=1e-12))
    ]


def test_communication_slows_a_memory_kernel_by_the_bandwidth_it_takes() -> None:
    """A device of 4 bytes/s; each byte sent is read and written: 1 byte/s takes half of it.

    The transfer lasts 6 s; the kernel needs 10 s alone, has done 3 of them by then, and ends at 13.
    """
    device = replace(
        UNIT, memory_bandwidth=4.0, calibration={**UNIT.calibration, "memory.bandwidth": 1.0}
    )
    cluster = star(2, device=device)
    beside = alike(2, {"compute": [kernel("m", 40)], "comm": [ring("c", 6)]}, {"pair": [[0, 1]]})
    timeline = simulate(beside, cluster)
    assert bars(timeline, 0, "comm") == [("c", 0, 6)]
    assert bars(timeline, 0, "compute") == [("m", 0, pytest.approx(13.0, rel=1e-12))]


# Events


class Noting(simpy.Environment):
    """An environment that notes the time of every event that wakes somebody."""

    times: list[float]

    def step(self) -> None:
        event = self._queue[0][3]
        if event.callbacks:
            self.times.append(self._queue[0][0])
        super().step()


@pytest.fixture
def noted(monkeypatch):
    times: list[float] = []
    monkeypatch.setattr(Noting, "times", times, raising=False)
    monkeypatch.setattr(sim.engine, "Environment", Noting)
    return times


def test_every_start_and_end_of_an_op_is_an_event(noted) -> None:
    busy = program(
        {
            "compute": [kernel("a", 2), ring("r", 3), kernel("b", 1, signals=("go",))],
            "send": [Send("s", "pp.next", 2.0, waits=("go",))],
        },
        {
            "compute": [kernel("c", 4), ring("r", 3), kernel("d", 7)],
            "recv": [Recv("t", "pp.next", 2.0)],
        },
        groups={"pair": [[0, 1]]},
        peers=NEXT,
    )
    timeline = simulate(busy, star(2))
    moments = {t for rank in range(2) for _, s, t in bars(timeline, rank)}
    moments |= {s for rank in range(2) for _, s, t in bars(timeline, rank)}
    assert moments <= {0.0, *noted}
    assert {4.0, 7.0, 8.0, 10.0, 14.0} <= set(noted)


@pytest.mark.parametrize("op", [kernel("k", 1), ring("r", 1)])
def test_an_op_that_shares_nothing_is_one_event(noted, op) -> None:
    """One more op, one more event: neither start nor rate is one of its own."""
    counts = []
    for n in (10, 20):
        noted.clear()
        timeline = simulate(alike(2, {"c": [op] * n}, {"pair": [[0, 1]]}), star(2))
        counts.append(timeline.num_events)
        assert noted[1:] == [float(i) for i in range(1, n + 1)] + [float(n)] * (len(noted) - 1 - n)
    assert counts[1] - counts[0] == 10


def test_an_op_that_shares_costs_three_events_at_most() -> None:
    """Two streams whose transfers share every link: a timer each, and those that moved."""
    counts = []
    for n in (10, 20):
        two = alike(2, {"x": [ring("r", 1)] * n, "y": [ring("r", 1)] * n}, {"pair": [[0, 1]]})
        counts.append(simulate(two, star(2)).num_events)
    assert counts[1] - counts[0] <= 3 * 20


# Merged runs of ops


def test_merged_ops_take_the_same_time_in_fewer_events() -> None:
    ops = [kernel(f"k{i}", i + 1) for i in range(6)]
    one = program({"compute": [*ops, Allocate("x", 4.0), kernel("last", 2)]})
    plain, merged = simulate(one, star(1)), simulate(one, star(1), merged=True)
    assert bars(merged, 0) == bars(plain, 0)
    assert merged.num_spans == plain.num_spans == 7
    assert merged.num_events < plain.num_events
    assert memory_peak(merged, 0) == memory_peak(plain, 0) == (4.0, 21.0, {"x": 4.0}, 4.0)


# What cannot go on


def test_a_deadlock_names_ranks_ops_and_peers() -> None:
    two = program(
        {"compute": [Recv("get1", "back", 1.0), Send("put0", "pp.next", 1.0)]},
        {"compute": [Recv("get0", "pp.next", 1.0), Send("put1", "back", 1.0)]},
        peers={"pp.next": [1, -1], "back": [-1, 0]},
    )
    with pytest.raises(DeadlockError) as caught:
        simulate(two, star(2))
    text = str(caught.value)
    assert "rank 0, stream 'compute': 'get1' waits for rank 1 to send on channel 'back'" in text
    assert "rank 1, stream 'compute': 'get0' waits for rank 0 to send on channel 'pp.next'" in text


def test_blocking_sends_to_each_other_deadlock() -> None:
    two = program(
        {"compute": [Send("s0", "swap", 1.0, blocking=True), Recv("r0", "swap", 1.0)]},
        {"compute": [Send("s1", "swap", 1.0, blocking=True), Recv("r1", "swap", 1.0)]},
        peers={"swap": [1, 0]},
    )
    with pytest.raises(DeadlockError, match=r"rank 0.*'s0' waits for rank 1 to receive"):
        simulate(two, star(2))


def test_collectives_in_opposite_orders_deadlock() -> None:
    a, b = Collective("a", "all_reduce", "x", 1.0), Collective("b", "all_reduce", "y", 1.0)
    two = program({"compute": [a, b]}, {"compute": [b, a]}, groups={"x": [[0, 1]], "y": [[0, 1]]})
    with pytest.raises(DeadlockError) as caught:
        simulate(two, star(2))
    assert "rank 0, stream 'compute': 'a' waits for the other members of its 'x' group" in str(
        caught.value
    )
    assert "rank 1, stream 'compute': 'b' waits" in str(caught.value)


def test_a_semaphore_nobody_signals_deadlocks() -> None:
    one = program({"compute": [kernel("a", 1), Wait(("grads",)), kernel("b", 1)]})
    with pytest.raises(DeadlockError, match=r"rank 0, stream 'compute': 'wait' waits for 'grads'"):
        simulate(one, star(1))


def test_sizes_of_a_message_must_agree() -> None:
    two = program(
        {"send": [Send("out", "pp.next", 3.0)]}, {"recv": [Recv("in", "pp.next", 4.0)]}, peers=NEXT
    )
    with pytest.raises(ProgramError) as caught:
        simulate(two, star(2))
    for part in ("channel 'pp.next'", "'out' of rank 0", "3 bytes", "'in' of rank 1", "4 bytes"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "other",
    [Collective("b", "all_reduce", "pair", 4.0), Collective("b", "all_gather", "pair", 3.0)],
)
def test_members_of_a_group_must_run_the_same_collectives(other) -> None:
    mine = Collective("a", "all_reduce", "pair", 3.0)
    two = program({"c": [mine]}, {"c": [other]}, groups={"pair": [[0, 1]]})
    with pytest.raises(ProgramError) as caught:
        simulate(two, star(2))
    text = str(caught.value)
    assert "ranks of one group disagree on axis 'pair', stream 'c'" in text
    assert "'a' of 3 bytes" in text
    assert f"{other.kind} 'b' of {other.nbytes:g} bytes" in text


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (Collective("c", "all_reduce", "tp", 1.0), r"'c' on axis 'tp': rank 0 is in no group"),
        (Send("s", "away", 1.0), r"send 's': rank 0 has no peer on channel 'away'"),
        (Recv("r", "away", 1.0), r"recv 'r': rank 0 has no peer on channel 'away'"),
    ],
)
def test_an_op_of_an_unknown_group_or_peer_is_named(op, message) -> None:
    with pytest.raises(ProgramError, match=message):
        simulate(program({"c": [op]}), star(1))


def test_a_cluster_too_small_says_so() -> None:
    three = alike(3, {"c": [kernel("k", 1)]})
    with pytest.raises(ProgramError, match=r"3 ranks on devices up to 2; cluster graph has 2"):
        simulate(three, star(2))


def test_two_ranks_on_one_device_are_refused() -> None:
    two = alike(2, {"c": [kernel("k", 1)]})
    with pytest.raises(ProgramError, match="1 distinct devices for 2 ranks"):
        simulate(two, star(2), placement=np.array([1, 1]))


def test_a_group_that_lists_a_rank_twice_is_refused() -> None:
    two = alike(2, {"c": [kernel("k", 1)]}, {"x": [[0, 0]]})
    with pytest.raises(ProgramError, match="axis 'x' list a rank twice"):
        simulate(two, star(2))


def test_an_empty_program_takes_no_time() -> None:
    assert simulate(program({}), star(1)).step_time == 0.0


# The same again


def test_two_runs_are_equal() -> None:
    def run():
        return simulate(two_sends(6, 4, later=2), star(3))

    a, b = run(), run()
    assert a.frame().equals(b.frame())
    assert a.num_events == b.num_events


GOLDEN = """
0 compute F0.0   0.0 0.0  1.0
0 compute F0.1   1.0 1.0  2.0
0 compute BW0.0  4.5 4.5  6.5
0 compute BW0.1  7.5 7.5  9.5
0 send.F0 send.F0 1.0 1.0  1.25
0 send.F0 send.F0 2.0 2.0  2.25
0 recv.B0 recv.B0 0.0 4.25 4.5
0 recv.B0 recv.B0 4.5 7.25 7.5
1 recv.F0 recv.F0 0.0 1.0  1.25
1 recv.F0 recv.F0 1.25 2.0 2.25
1 compute F0.0   1.25 1.25 2.25
1 compute BW0.0  2.25 2.25 4.25
1 compute F0.1   4.25 4.25 5.25
1 compute BW0.1  5.25 5.25 7.25
1 send.B0 send.B0 4.25 4.25 4.5
1 send.B0 send.B0 7.25 7.25 7.5
"""
"""1F1B of two microbatches on two stages, a quarter second a hop: worked out with a pencil."""


def test_a_small_frame_is_what_it_was() -> None:
    orders = SCHEDULES["1f1b"].generate(num_stages=2, num_microbatches=2)
    toy = toy_program(orders, SCHEDULES["1f1b"].placement(2), Times())
    frame = simulate(toy, star(2, bandwidth=2.0**60, latency=0.25)).frame()
    columns = ["rank", "stream", "name", "posted", "start", "end"]
    found = sorted(tuple(row) for row in frame[columns].itertuples(index=False))
    expected = sorted(
        (int(r), s, n, *map(float, t))
        for r, s, n, *t in (line.split() for line in GOLDEN.split("\n") if line)
    )
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    for row, line in zip(found, expected, strict=True):
        assert row[3:] == pytest.approx(line[3:], abs=1e-12)


def test_placement_says_where_each_rank_sits() -> None:
    """Across pods the pair shares an uplink of half a byte a second."""
    pair = Collective("r", "send_recv", "pair", 3.0)
    two = alike(2, {"c": [pair]}, {"pair": [[0, 1]]})
    cluster = pods([2, 2], uplink=0.5)
    assert simulate(two, cluster).step_time == 3
    assert simulate(two, cluster, placement=np.array([3, 0])).step_time == 6
