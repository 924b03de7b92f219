"""The command line as a script sees it: exit status, standard output, standard error."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from experiments.cli import COMMANDS, main
from experiments.cli_output import cell, plain, working
from experiments.cli_simulate import parse_window
from sim.errors import DeadlockError, InputError
from sim.units import us

SUMMARY: dict[str, Any] = {
    "step_time_s": 2.0,
    "tokens_per_s": 1000.0,
    "tokens_per_s_per_device": 10.0,
    "tflops_per_device": 400.0,
    "mfu": 0.4,
    "mfu_causal": 0.38,
    "hfu": 0.4,
    "bubble_fraction": 0.1,
    "exposed_comm_s": {"tp": 0.3},
    "overlap_fraction": 0.5,
    "utilization": {"compute": 0.6, "memory": 0.2, "links": 0.1},
    "ledger": {"mean": {"compute": 1.5, "exposed tp": 0.3, "bubble warm-up": 0.2}, "stages": []},
    "peak_memory_bytes": 60.0 * 2**30,
    "memory": [
        {
            "stage": 0,
            "peak_bytes": 57.0 * 2**30,
            "driver_bytes": 60.0 * 2**30,
            "verdict": "fits",
            "breakdown": {"parameters": 17.0 * 2**30, "activations": 40.0 * 2**30},
        }
    ],
    "fits": True,
    "capacity_bytes": 80.0 * 2**30,
    "num_devices": 16384,
    "num_rank_classes": 16,
    "num_events": 2,
    "num_spans": 1,
    "wall_s": 0.1,
    "assumptions": ["layers spread evenly"],
}  # fmt: skip
BAD_SETS = (
    "plan.tp=6", "plan.tp=0", "plan.pp=17", "plan.microbatch=-1", "plan.global_batch=7", "plan.tpp=4",
    "cluster.num_devices=10", "plan.schedule=zigzag", "plan.tp=abc",
)  # fmt: skip
Capture = pytest.CaptureFixture[str]
FakeModule = Callable[..., None]


@pytest.fixture
def fake_module(monkeypatch: pytest.MonkeyPatch) -> FakeModule:
    """Put a module with some functions in place of one that is heavy."""

    def put(name: str, **functions: object) -> None:
        module = ModuleType(name)
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        monkeypatch.setattr(sys.modules[parent], child, module, raising=False)

    return put


@pytest.fixture
def fake_simulation(fake_module: FakeModule) -> None:
    result = SimpleNamespace(summary=lambda: dict(SUMMARY), timeline="the timeline", balance={})
    fake_module("experiments.simulation", simulate_run=lambda config, **_: result, Result=object)


@pytest.mark.parametrize("change", BAD_SETS)
def test_a_bad_value_exits_2_with_one_message_and_no_output(change: str, capsys: Capture) -> None:
    assert main(["simulate", "llama3-405b", "--json", "--set", change]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert len(err) > 20


def test_a_misspelt_run_names_the_right_one(capsys: Capture) -> None:
    assert main(["simulate", "lama3-405b", "--json"]) == 2
    out, err = capsys.readouterr()
    assert (out, "llama3-405b" in err) == ("", True)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["simulat"], "simulate"),
        (["simulate"], "run"),
        (["simulate", "x", "--jsn"], "--json"),
        (["list", "modls"], "models"),
        (["study", "nosuch"], "nosuch"),
        (["plan", "llama3-405b", "--top", "0"], "at least 1"),
        (
            ["simulate", "llama3-8b", "--set", "cluster.oversubscription=abc"],
            "oversubscription='abc'",
        ),
        (["topology", "h100-fat-tree", "--set", "oversubscription=abc"], "oversubscription='abc'"),
        (["topology", "h100-fat-tree", "--devices", "1000000000"], "at most 4194304"),
        (["simulate", "llama3-8b", "--set", "plan.dp=1000000000"], "dp=128"),
        (
            ["simulate", "llama3-8b", "--set", "plan.global_batch=1000000000000"],
            "smaller global_batch",
        ),
        (["simulate", "llama3-8b", "--set", "model.num_layers=5000000"], "too many"),
        (["simulate", "llama3-8b", "--gantt", "f.xyz"], ".png"),
        (["simulate", "."], "is a folder"),
        (["schedule", "1f1b", "--stages", "4", "--microbatches", "1000000000"], "too many to play"),
        (
            ["schedule", "zb-h1", "--stages", "4", "--microbatches", "8", "--times", "1,1,1,0,2"],
            "no overlapped pairs",
        ),
        (["schedule", "1f1b", "--run", "llama3-8b"], "--stages P"),
        (["schedule", "1f1b", "--run", "gpt3-175b", "--times", "1,1,1"], "leave --times out"),
        (["schedule", "1f1b", "--run", "gpt3-175b", "--chunks", "3"], "chunks=1"),
        (["schedule", "1f1b", "--run", "gpt3-175b", "--race", "--group-size", "3"], "--group-size"),
        (["schedule", "my.csv", "--run", "gpt3-175b"], "by name"),
        (
            ["schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--race", "--overlap"],
            "--overlap",
        ),
        (
            ["schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--set", "plan.pp=4"],
            "--run RUN",
        ),
        (["goodput", "llama3-405b"], "not yet available"),
        (["simulate", "llama3-405b", "--gantt-window", "0:1"], "--gantt"),
        (["simulate", "llama3-405b", "--gantt", "/nosuch/f.png"], "/nosuch"),
        (["simulate", "llama3-405b", "--trace", "/nosuch/t.json"], "/nosuch"),
        (["simulate", "llama3-405b", "--trace", "."], "--kineto"),
        (["simulate", "llama3-405b", "--kineto", "/nosuch/ranks"], "there is no folder /nosuch"),
        (["simulate", "llama3-405b", "--kineto", __file__], "is a file"),
        (["simulate", "nosuch.toml"], "No such file"),
        (["scoreboard", "--kernels", "nosuch.csv"], "nosuch.csv"),
        (["compare", "llama3-405b"], "two runs"),
        (["schedule", "zigzag", "--stages", "4", "--microbatches", "8"], "zigzag"),
        (["schedule", "1f1b", "--stages", "0", "--microbatches", "8"], "at least 1"),
        (["schedule", "1f1b", "--microbatches", "8"], "needs stages"),
        (
            ["schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--times", "1,x"],
            "F,B,W,COMM",
        ),
        (["schedule", "nosuch.csv"], "nosuch.csv"),
        (["collective", "all_reduc", "--cluster", "h100-host", "--bytes", "8"], "all_reduce"),
        (["collective", "all_reduce", "--cluster", "h100-hos", "--bytes", "8"], "h100-host"),
        (["collective", "all_reduce", "--cluster", "h100-host"], "--sweep"),
        (["collective", "all_reduce", "--cluster", "h100-host", "--bytes", "1G"], "ambiguous"),
        (["collective", "all_reduce", "--cluster", "h100-host", "--bytes", "0"], "more than 0"),
        (["topology", "h100-hst"], "h100-host"),
        (["topology", "h100-fat-tree", "--set", "oversub=2"], "oversubscription"),
    ],
)
def test_a_wrong_use_exits_2_and_says_what_is_right(
    arguments: list[str], word: str, capsys: Capture
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert word in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_takes_json(command: str, capsys: Capture) -> None:
    assert main([command, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    "what", ["models", "runs", "clusters", "devices", "schedules", "collectives", "studies"]
)
def test_list_gives_named_things_as_json_and_as_a_table(what: str, capsys: Capture) -> None:
    assert main(["list", what, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == [what]
    assert all(row["name"] for row in answer[what])
    assert main(["list", what]) == 0
    shown = capsys.readouterr().out
    assert all(row["name"] in shown for row in answer[what])


def test_list_models_counts_parameters(capsys: Capture) -> None:
    assert main(["list", "models", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["models"]}
    # published counts: Llama 3 405.85e9, GPT-3 174.6e9
    assert rows["llama3-405b"]["num_params"] == pytest.approx(405.85e9, rel=1e-3)
    assert rows["gpt3-175b"]["num_params"] == pytest.approx(174.6e9, rel=1e-3)


def test_list_clusters_says_devices(capsys: Capture) -> None:
    assert main(["list", "clusters", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["clusters"]}
    assert rows["llama3-roce"]["num_devices"] == 16384
    assert rows["llama3-roce"]["device"] == "h100-sxm"


@pytest.mark.usefixtures("fake_simulation")
def test_simulate_prints_one_json_object(capsys: Capture) -> None:
    assert main(["simulate", "llama3-405b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == SUMMARY


@pytest.mark.usefixtures("fake_simulation")
def test_simulate_shows_the_plan_the_ledger_and_memory(capsys: Capture) -> None:
    assert main(["simulate", "llama3-405b"]) == 0
    shown = capsys.readouterr().out
    for text in ("16,384 devices of llama3-roce", "tp 8 pp 16 dp 128", "40.0% / 38.0%", "exposed tp", "75.0%",
                 "it fits", "75% fits", "layers spread evenly", "16 rank classes"):  # fmt: skip
        assert text in shown


def test_simulate_names_what_fills_the_memory_when_it_does_not_fit(
    fake_module: FakeModule, capsys: Capture
) -> None:
    result = SimpleNamespace(summary=lambda: {**SUMMARY, "fits": False}, timeline=None, balance={})
    fake_module("experiments.fit", would_fit=lambda config: [])
    fake_module("experiments.simulation", simulate_run=lambda config, **_: result, Result=object)
    assert main(["simulate", "llama3-405b"]) == 0
    assert "DOES NOT FIT: activations 40.0 GiB, parameters 17.0 GiB" in capsys.readouterr().out


@pytest.mark.usefixtures("fake_simulation")
def test_simulate_writes_the_pictures_it_is_asked_for(
    fake_module: FakeModule, tmp_path: Path, capsys: Capture
) -> None:
    seen: list[object] = []
    figure = SimpleNamespace(savefig=seen.append)

    def gantt(timeline: object, *, window: object) -> object:
        seen.extend((timeline, window))
        return figure

    fake_module("sim.plot", gantt=gantt)
    fake_module("sim.trace", write_trace=lambda timeline, path: seen.append(path))
    picture, trace = tmp_path / "g.png", tmp_path / "t.json"
    arguments = ["--gantt", str(picture), "--gantt-window", "0:500ms", "--trace", str(trace)]
    assert main(["simulate", "llama3-405b", "--json", *arguments]) == 0
    assert seen == ["the timeline", (0.0, 0.5), picture, trace]


def test_a_deadlock_exits_3(fake_module: FakeModule, capsys: Capture) -> None:
    def stuck(config: object) -> None:
        raise DeadlockError("rank 0 waits for rank 1")

    fake_module("experiments.simulation", simulate_run=stuck, Result=object)
    assert main(["simulate", "llama3-405b"]) == 3
    out, err = capsys.readouterr()
    assert (out, err) == ("", "error: rank 0 waits for rank 1\n")


@pytest.mark.usefixtures("fake_simulation")
def test_compare_sets_runs_side_by_side_at_equal_tokens(capsys: Capture) -> None:
    assert main(["compare", "llama3-405b", "llama3-405b-131k", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [run["name"] for run in answer["runs"]] == ["llama3-405b", "llama3-405b-131k"]
    assert main(["compare", "llama3-405b", "llama3-405b-8192"]) == 0
    assert main(["compare", "llama3-405b", "gpt3-175b"]) == 2
    assert "tokens a step differ" in capsys.readouterr().err


def test_schedule_plays_one(capsys: Capture) -> None:
    arguments = ["schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--times", "1,1,1,0"]
    assert main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["makespan"] == (8 + 4 - 1) * 3
    assert len(answer["orders"]) == 4
    assert main(arguments) == 0
    assert "makespan 33" in capsys.readouterr().out


def test_schedule_races_all(capsys: Capture) -> None:
    arguments = ["schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--race"]
    assert main([*arguments, "--json"]) == 0
    rows = {row["schedule"]: row for row in json.loads(capsys.readouterr().out)["schedules"]}
    assert rows["gpipe"]["makespan"] == (4 + 2 - 1) * 3
    assert main(arguments) == 0
    assert "gpipe" in capsys.readouterr().out


def test_collective_times_one_and_sweeps(capsys: Capture) -> None:
    arguments = ["collective", "all_reduce", "--cluster", "h100-host", "--devices", "8"]
    assert main([*arguments, "--bytes", "1GiB", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["busbw_Bps"] == pytest.approx(answer["algbw_Bps"] * 2 * 7 / 8)
    assert answer["algbw_Bps"] == pytest.approx(2**30 / answer["time_s"])
    assert main([*arguments, "--sweep", "--json"]) == 0
    sizes = [row["size"] for row in json.loads(capsys.readouterr().out)["rows"]]
    assert sizes == [2**n for n in range(3, 35)]
    assert main([*arguments, "--sweep"]) == 0
    assert "busbw" in capsys.readouterr().out


def test_topology_describes_and_draws(capsys: Capture, tmp_path: Path) -> None:
    arguments = ["topology", "h100-fat-tree", "--devices", "32", "--set", "oversubscription=2"]
    assert main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["num_devices"], answer["num_hosts"]) == (32, 4)
    picture = tmp_path / "t.png"
    assert main([*arguments, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "num_hosts" in capsys.readouterr().out


def test_a_window_is_two_times() -> None:
    assert parse_window("0.5:1500ms") == (0.5, 1.5)
    for text in ("1", "2:1", "1:1"):
        with pytest.raises(InputError, match="--gantt-window"):
            parse_window(text)


def test_json_is_plain_and_finite() -> None:
    import numpy as np

    value = {"a": np.float64(1.5), 2: np.arange(2), "c": (float("inf"), None, True)}
    assert plain(value) == {"a": 1.5, "2": [0, 1], "c": [None, None, True]}


def test_cells_are_readable() -> None:
    assert [cell(v) for v in (16384, 6.72109, 123456.7, True, None, "x")] == [
        "16,384", "6.721", "123,457", "yes", "", "x",
    ]  # fmt: skip


def test_long_work_shows_signs_of_life_on_stderr_and_short_work_none(capsys: Capture) -> None:
    with working("thinking", patience=0.0):
        import time

        time.sleep(0.05)
    with working("blinking"):
        pass
    out, err = capsys.readouterr()
    assert out == ""
    assert "thinking" in err
    assert "blinking" not in err


SMALL = """
[model]
preset = "llama2-7b"
[cluster]
preset = "a100-superpod"
num_devices = 16
[plan]
tp = 2
pp = 4
global_batch = 16
seq_len = 2048
zero = 1
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return str(path)


def test_what_if_is_in_the_answer_the_table_and_a_chart(
    small: str, tmp_path: Path, capsys: Capture
) -> None:
    chart = tmp_path / "chart.png"
    assert main(["simulate", small, "--json", "--what-if-chart", str(chart)]) == 0
    rows = json.loads(capsys.readouterr().out)["what_if"]
    assert {
        "compute",
        "memory",
        "scale_up",
        "scale_out",
        "latency",
        "comm_units",
        "launch",
        "pipeline",
    } == {row["resource"] for row in rows}
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert main(["simulate", small, "--what-if"]) == 0
    assert "twice as fast" in capsys.readouterr().out


def test_a_page_of_one_run_and_of_two(small: str, tmp_path: Path, capsys: Capture) -> None:
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    assert main(["simulate", small, "--json", "--report", str(one)]) == 0
    assert main(["compare", small, small, "--report", str(two), "--json"]) == 0
    for page in (one, two):
        text = page.read_text(encoding="utf-8")
        assert "llama2-7b on 16 devices of a100-superpod" in text
        assert "http://" not in text.replace("http://www.w3.org", "")
    capsys.readouterr()


def test_kineto_traces_are_one_file_a_rank_class(
    small: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = tmp_path / "ranks"
    assert main(["simulate", small, "--json", "--kineto", str(folder)]) == 0
    answer = json.loads(capsys.readouterr().out)
    files = sorted(folder.iterdir())
    assert len(files) == answer["num_rank_classes"]
    first = json.loads(files[0].read_text(encoding="ascii"))
    assert files[0].name == "rank0.pt.trace.json"
    assert first["distributedInfo"] == {**first["distributedInfo"], "rank": 0, "world_size": 16}
    ends = [e["ts"] + e["dur"] for e in first["traceEvents"] if e.get("cat") == "kernel"]
    begins = [e["ts"] for e in first["traceEvents"] if e.get("cat") == "kernel"]
    assert (max(ends) - min(begins)) * us == pytest.approx(answer["step_time_s"], rel=0.01)
    assert main(["simulate", small, "--json", "--kineto", str(folder)]) == 0  # a second time


def test_a_plan_that_does_not_fit_comes_with_changes_that_would(
    small: str, capsys: Capture
) -> None:
    change = ["--set", "plan.pp=1", "--set", "plan.tp=1", "--set", "plan.zero=0"]
    assert main(["simulate", small, "--json", "--fit", *change]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert not answer["fits"]
    assert any(row["fits"] for row in answer["would_fit"])
    assert main(["simulate", small, "--fit", *change]) == 0
    assert "what would make it fit" in capsys.readouterr().out


def test_a_schedule_on_a_run(small: str, tmp_path: Path, capsys: Capture) -> None:
    picture = tmp_path / "g.png"
    assert main(["schedule", "zb-v", "--run", small, "--json", "--gantt", str(picture)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["stages"], answer["chunks"], answer["microbatches"]) == (4, 2, 8)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["schedule", "zb-v", "--run", small]) == 0
    assert "makespan of the passes" in capsys.readouterr().out


def test_a_race_on_a_run(small: str, capsys: Capture) -> None:
    assert main(["schedule", "1f1b", "--run", small, "--race"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("dualpipe", "interleaved-zb", "naive"))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x = ", "not TOML"),
        (
            b'[model]\npreset="llama3-8b"\n[cluster]\npreset="h100-host"\nnum_devices=8\n',
            "[plan] is missing",
        ),
    ],
)
def test_a_broken_run_file_has_one_message(
    content: bytes, word: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    assert main(["simulate", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, word in err, err.count("\n")) == ("", True, 1)
