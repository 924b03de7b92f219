"""The Chrome trace: valid JSON that adds up to the timeline, on threads whose events never overlap."""

import gzip
import json
from collections import defaultdict
from itertools import pairwise

import pytest

from sim.errors import InputError
from sim.program import Compute
from sim.trace import write_trace
from tests.sim.shown import pipeline

US = 1e6


@pytest.fixture(scope="module")
def timeline():
    return pipeline()


@pytest.fixture(scope="module")
def trace(timeline, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.json"
    write_trace(timeline, path)
    return json.loads(path.read_text())


def events(trace, kind):
    return [event for event in trace["traceEvents"] if event["ph"] == kind]


def test_every_span_is_an_event_of_its_length(timeline, trace) -> None:
    found = events(trace, "X")
    assert len(found) == timeline.num_spans
    for rank in (0, 1):
        spans = list(timeline.spans(timeline.class_of_rank(rank)))
        assert sum(e["dur"] for e in found if e["pid"] == rank) == pytest.approx(
            US * sum(s.end - s.start for s in spans)
        )
        kernels = sum(s.end - s.start for s in spans if isinstance(s.op, Compute))
        assert sum(
            e["dur"] for e in found if e["pid"] == rank and e["cat"].startswith("compute")
        ) == pytest.approx(US * kernels)


def test_a_process_is_a_rank_and_a_thread_a_stream(trace) -> None:
    names = {(e["pid"], e.get("tid"), e["name"]): e["args"] for e in events(trace, "M")}
    assert names[0, None, "process_name"] == {"name": "rank 0, pipeline place 0"}
    assert {a["name"] for (pid, _, n), a in names.items() if pid == 1 and n == "thread_name"} == {
        "compute",
        "recv",
        "send",
    }


def test_events_say_what_they_are_part_of(trace) -> None:
    back = next(
        e for e in events(trace, "X") if e["name"] == "back" and e["args"]["microbatch"] == 1
    )
    assert back["args"] == {
        "op": "copy", "shape": "bf16", "phase": "B", "flops": 0.0, "bytes": 2.0, "action": "BW", "stage": 0, "chunk": 0,
        "microbatch": 1,
    }  # fmt: skip
    assert (back["ts"], back["dur"]) == (15 * US, 2 * US)


def test_events_of_a_thread_do_not_overlap(trace) -> None:
    threads = defaultdict(list)
    for event in events(trace, "X"):
        threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in threads.values():
        ordered = sorted(spans)
        assert all(a[1] <= b[0] for a, b in pairwise(ordered))


def test_an_arrow_joins_every_send_and_its_receive(trace) -> None:
    starts = {e["id"]: e for e in events(trace, "s")}
    ends = {e["id"]: e for e in events(trace, "f")}
    assert len(starts) == len(ends) == 4
    spans = {(e["pid"], e["tid"]): [] for e in events(trace, "X")}
    for event in events(trace, "X"):
        spans[event["pid"], event["tid"]].append(event)
    for number, start in starts.items():
        end = ends[number]
        assert start["pid"] != end["pid"]
        assert start["ts"] <= end["ts"]
        for arrow in (start, end):
            under = spans[arrow["pid"], arrow["tid"]]
            assert any(e["ts"] <= arrow["ts"] <= e["ts"] + e["dur"] for e in under)


def test_memory_counters_follow_the_curve(trace) -> None:
    gib = 2.0**30
    counters = [e for e in events(trace, "C") if e["pid"] == 0]
    assert counters[0]["args"]["parameters"] == pytest.approx(50 / gib, abs=1e-4)
    assert [e["ts"] / US for e in counters] == [0, 2, 12, 17]


def test_a_name_in_gz_is_compressed(timeline, tmp_path) -> None:
    write_trace(timeline, tmp_path / "t.json.gz", memory=False)
    with gzip.open(tmp_path / "t.json.gz", "rt") as file:
        assert not events(json.load(file), "C")


def test_rank_classes_can_be_chosen(timeline, tmp_path) -> None:
    write_trace(timeline, tmp_path / "t.json", rank_classes=[1])
    shown = json.loads((tmp_path / "t.json").read_text())
    assert {e["pid"] for e in shown["traceEvents"]} == {1}
    assert not events(shown, "s")


def test_a_rank_class_that_does_not_exist_is_refused(timeline, tmp_path) -> None:
    with pytest.raises(InputError, match="rank class 7 does not exist; choose from 0 to 1"):
        write_trace(timeline, tmp_path / "t.json", rank_classes=[7])
