"""Studies: what every one has, how one runs, and that the quick form's rows are rows of the whole table."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.cli_study import questions
from experiments.largest_model import last_within, rungs
from experiments.study import (
    FINDING_CHARACTERS,
    ClaimError,
    claim,
    module_of,
    moved_rows,
    replay,
    run_studies,
    run_study,
    shortened,
    write_index,
)
from workloads.plan import Plan

STUDIES = questions()
FAST = ("all-reduce-is-two-halves", "dp-volumes", "zero-memory")
ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "results"


def test_there_are_two_dozen_studies_and_each_asks_a_question() -> None:
    assert len(STUDIES) >= 24
    for name, question in STUDIES.items():
        assert "?" in question, f"{name} asks nothing"


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_run_check_plot_and_main(name: str) -> None:
    module = module_of(name)
    assert [
        f for f in ("run", "check", "plot", "main") if not callable(getattr(module, f, None))
    ] == []


@pytest.mark.parametrize("name", STUDIES)
def test_results_hold_table_figure_and_a_finding_of_two_lines(name: str) -> None:
    folder = RESULTS / name
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert len((folder / "table.csv").read_text().splitlines()) > 1
    lines = (folder / "finding.txt").read_text().splitlines()
    assert len(lines) == 2
    assert all(lines)


def test_the_index_has_a_line_a_study() -> None:
    index = (RESULTS / "README.md").read_text()
    for name in STUDIES:
        (line,) = (row for row in index.splitlines() if f"`./run study {name}`" in row)
        assert len(line.split(" | ")[1]) <= FINDING_CHARACTERS


@pytest.mark.parametrize("name", FAST)
def test_a_quick_study_writes_its_answer(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = run_study(name, tmp_path / name, quick=True)
    assert row["finding"].count("\n") == 1
    text = (tmp_path / name / "table.csv").read_text()
    whole = RESULTS / name / "table.csv"
    assert text.splitlines()[0] == whole.read_text().splitlines()[0]
    again = run_study(name, tmp_path / "again", quick=True)
    assert again["finding"] == row["finding"]
    assert (tmp_path / "again" / "table.csv").read_text() == text


def test_moved_rows_are_found_and_cpu_seconds_are_not_compared(tmp_path: Path) -> None:
    known = tmp_path / "table.csv"
    known.write_text('n,time,replay_cpu_s\n"a, b",2,0.1\nc,4,0.2\n')
    assert moved_rows('n,time,replay_cpu_s\n"a, b",2,9\n', known) == []
    assert moved_rows("n,time,replay_cpu_s\nc,5,0.2\n", known) == ["c,5"]
    assert moved_rows("n,seconds,replay_cpu_s\nc,4,0.2\n", known) == ["n,seconds"]


def test_a_claim_that_does_not_hold_is_an_error_with_its_message() -> None:
    claim(True, "unused")
    with pytest.raises(ClaimError, match="found 3"):
        claim(False, "found 3")


def test_a_claim_that_does_not_hold_fails_its_study_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _keep_another_table(tmp_path, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        rows = run_studies(["zero-memory", "dp-volumes"], tmp_path / "out", pool, quick=True)
    assert [row.get("failed", False) for row in rows] == [True, True]
    assert "rows are not in" in rows[0]["finding"]
    assert "no kept table" in rows[1]["finding"]
    assert not (tmp_path / "out").exists()


def test_one_study_that_fails_prints_its_claim_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _keep_another_table(tmp_path, monkeypatch)
    assert main(["study", "zero-memory", "--quick", "--json"]) == 1
    printed = capsys.readouterr()
    assert "does not hold: " in json.loads(printed.out)["studies"][0]["finding"]
    assert "error: claims that do not hold: zero-memory" in printed.err
    assert "Traceback" not in printed.err


def _keep_another_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = folder / "kept" / "zero-memory"
    kept.mkdir(parents=True)
    (kept / "table.csv").write_text("other\n1\n")
    monkeypatch.setattr("experiments.study.RESULTS", folder / "kept")


def test_the_command_runs_one_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["study", "zero-memory", "--quick", "--json", "--out", str(tmp_path)]) == 0
    (row,) = json.loads(capsys.readouterr().out)["studies"]
    assert row["name"] == "zero-memory"
    assert "./run study zero-memory" in (tmp_path / "README.md").read_text()


def test_a_quick_study_without_a_folder_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["study", "zero-memory", "--quick"]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["Short.", "One; " + "two, " * 40, "One, " + "two and " * 40])
def test_the_index_has_whole_clauses_of_160_characters(text: str) -> None:
    found = shortened(text)
    assert len(found) <= FINDING_CHARACTERS
    assert text.startswith(found.rstrip("."))


def test_an_unknown_study_names_the_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "zero-memoy"]) == 2
    assert "zero-memory" in capsys.readouterr().err


def test_the_index_skips_what_has_not_run(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "finding.txt").write_text("a | b.\nheld.\n")
    write_index(tmp_path, {"one": "One?", "two": "Two?"})
    text = (tmp_path / "README.md").read_text()
    assert "| [One?](one/figure.png) | a \\| b. | `./run study one` |" in text
    assert "Two?" not in text


def test_merged_and_plain_replays_take_the_same_time() -> None:
    plan = Plan(dp=8, zero=3, global_batch=8, seq_len=1024, software="torch-fsdp")
    times = [
        replay("gpt3-125m", "h100-host", 8, plan, merged=merged).timeline.step_time
        for merged in (True, False)
    ]
    assert times[0] == pytest.approx(times[1], rel=1e-9)


@pytest.mark.parametrize("start", [1, 30, 37, 38, 99])
def test_the_last_number_within_is_found_from_anywhere(start: int) -> None:
    assert last_within(lambda n: (n / 37.5) ** 2.4, start, 100) == 37


def test_rungs_grow() -> None:
    sizes = [12 * m.num_layers * m.hidden_size**2 for m in rungs()[:200]]
    assert sizes == sorted(sizes)
