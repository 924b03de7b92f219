"""Bars of a timeline: actions merged, kernels apart, communication thinned but conserved."""

import numpy as np
import pytest

from sim.lanes import (
    communication_lane,
    compute_lane,
    inside,
    kernel_seconds,
    num_chunks,
    thin,
    transfers,
)
from tests.sim.shown import pipeline


@pytest.fixture(scope="module")
def timeline():
    return pipeline()


def lane(timeline, detail, pixel=0.01, window=(0.0, 19.0)):
    stream = next(s for s in timeline.streams_of[0] if s.computes)
    spans = inside(stream, window)
    return compute_lane(stream, spans, pixel, detail, num_chunks(timeline))


def test_kernels_of_an_action_are_one_bar(timeline) -> None:
    bars = [
        (b.start, b.end, b.label, b.text) for b in lane(timeline, "actions").bars if b.height == 1
    ]
    assert bars == [
        (0, 2, "forward", "0"),
        (2, 4, "forward", "1"),
        (9, 12, "backward", "0"),
        (14, 17, "backward", "1"),
        (17, 18, "optimizer", ""),
        (18, 19, "dp all-reduce", ""),
    ]


def test_recompute_is_a_strip_where_it_runs(timeline) -> None:
    strips = [(b.start, b.end) for b in lane(timeline, "actions").bars if b.label == "recompute"]
    assert strips == [(9, 10), (14, 15)]


def test_kernels_are_drawn_one_by_one(timeline) -> None:
    bars = lane(timeline, "kernels").bars
    assert [b.text for b in bars] == [
        "fore",
        "fore",
        "again",
        "back",
        "again",
        "back",
        "adam",
        "norm",
    ]


def test_idle_inside_an_action_is_not_covered(timeline) -> None:
    bars = lane(timeline, "actions", pixel=0.5).bars
    busy = sum(b.end - b.start for b in bars if b.height == 1)
    assert busy == 12


def test_a_window_keeps_what_it_touches(timeline) -> None:
    bars = lane(timeline, "kernels", window=(3.0, 9.5)).bars
    assert [b.text for b in bars] == ["fore", "again"]


def test_thinning_keeps_the_busy_time() -> None:
    pixel = 1.0
    starts = np.arange(0.0, 300.0, 0.5)
    blocks = thin([(s, s + 0.2) for s in starts], pixel)
    assert len(blocks) == 100
    assert sum((b - a) * solid for a, b, solid in blocks) == pytest.approx(0.2 * len(starts))


def test_thinning_nothing_gives_nothing() -> None:
    assert thin([], 1.0) == []


def test_wide_transfers_are_bars_with_names(timeline) -> None:
    stream = next(s for s in timeline.streams_of[0] if s.name == "send")
    spans = transfers(inside(stream, (0.0, 19.0)))
    found = communication_lane("send", 0, spans, 0.01, height=1.0, names=True)
    assert [(b.start, b.end, b.text, b.label) for b in found.bars] == [
        (2, 3, "send.F", "pp transfer forward"),
        (4, 5, "send.F", "pp transfer forward"),
    ]


def test_kernel_seconds_leave_transfers_out(timeline) -> None:
    assert kernel_seconds(timeline, 0) == 11
    assert kernel_seconds(timeline, 1) == 11
