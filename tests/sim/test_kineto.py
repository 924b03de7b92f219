"""Kineto files: what readers of profilers' traces look for, and (where it is installed) the field's own reader."""

import gzip
import json
import re

import pytest

from sim.errors import InputError
from sim.program import Compute
from sim.trace import write_kineto
from tests.sim.shown import pipeline


@pytest.fixture(scope="module")
def timeline():
    return pipeline()


@pytest.fixture(scope="module")
def folder(timeline, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kineto")
    write_kineto(timeline, folder)
    return folder


def kernels(path):
    return [e for e in json.loads(path.read_text())["traceEvents"] if e.get("cat") == "kernel"]


def test_there_is_one_file_a_rank(folder) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "rank0.pt.trace.json",
        "rank1.pt.trace.json",
    ]


def test_readers_find_the_rank_before_the_events(folder) -> None:
    text = (folder / "rank1.pt.trace.json").read_text()
    head = text[: text.index("traceEvents")]
    assert re.search(r'"rank":\s+(\d+)', head).group(1) == "1"


def test_compute_and_communication_are_told_apart_by_name(timeline, folder) -> None:
    found = kernels(folder / "rank0.pt.trace.json")
    spans = list(timeline.spans(0))
    assert len(found) == len(spans)
    talk = [e for e in found if e["name"].startswith("nccl")]
    assert len(talk) == sum(not isinstance(s.op, Compute) for s in spans)
    names = {e["name"] for e in talk}
    assert "ncclDevKernel_SendRecv(pp.next send.F)" in names
    assert any(name.startswith("ncclDevKernel_AllReduce_Sum_bf16_") for name in names)


def test_kernels_stand_on_numbered_streams_of_a_device(folder) -> None:
    for event in kernels(folder / "rank0.pt.trace.json"):
        assert event["args"]["stream"] == event["tid"] >= 7
        assert event["args"]["device"] == event["pid"] == 0


def test_there_are_two_steps_the_second_an_end_mark(timeline, folder) -> None:
    events = json.loads((folder / "rank0.pt.trace.json").read_text())["traceEvents"]
    steps = [e for e in events if e.get("cat") == "user_annotation"]
    assert [e["name"] for e in steps] == ["ProfilerStep#0", "ProfilerStep#1"]
    assert steps[0]["dur"] == timeline.step_time * 1e6 < steps[1]["ts"]


def test_files_may_be_compressed(timeline, tmp_path) -> None:
    (path,) = write_kineto(timeline, tmp_path, [1], compressed=True)
    with gzip.open(path) as file:
        assert json.load(file)["distributedInfo"]["world_size"] == 2


def test_a_rank_that_does_not_exist_is_refused(timeline, tmp_path) -> None:
    with pytest.raises(InputError, match="rank 2 does not exist; choose from 0 to 1"):
        write_kineto(timeline, tmp_path, [2])


def test_holistic_trace_analysis_agrees(timeline, tmp_path) -> None:
    hta = pytest.importorskip(
        "hta.trace_analysis",
        reason="HolisticTraceAnalysis is not installed: pip install 'windtunnel[traces]' (pandas below 3)",
    )
    write_kineto(timeline, tmp_path)
    split = hta.TraceAnalysis(trace_dir=str(tmp_path)).get_temporal_breakdown(visualize=False)
    row = split[split["rank"] == 0].iloc[0]
    assert row["compute_time(us)"] == pytest.approx(11e6, rel=0.01)
    assert row["non_compute_time(us)"] == pytest.approx(4e6, rel=0.01)
    assert row["kernel_time(us)"] == pytest.approx(timeline.step_time * 1e6, rel=0.01)
