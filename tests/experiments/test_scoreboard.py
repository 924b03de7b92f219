"""The scoreboard: groups count once, sets, order of plans, coverage, bands and their likelihood, the command."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from experiments.bands import band, bands, likelihood
from experiments.calibration.bands import fit_band
from experiments.cli import application
from experiments.score_progress import line
from experiments.score_sets import CATEGORIES, TABLES, category, clean, family
from experiments.scoreboard import (
    Scored,
    coverage,
    errors,
    ranking,
    reasons,
    score,
    spearman,
    summarise,
    worst,
)
from experiments.scoreboard_figure import scoreboard_figure
from sim.errors import InputError

DATA = Path(__file__).parents[2] / "experiments" / "data"


def item(predicted: float | None, measured: float | None, **row: str) -> Scored:
    """Return a scored run; a row of no prediction is unsupported."""
    answer: dict[str, Any] = {
        "row": 0, "id": row.get("id", "x-001"), "status": "ok" if predicted else "unsupported", "reason": "because",
        "predicted_step_time_s": predicted, "measured_step_time_s": measured,
        "low_step_time_s": (predicted or 0.0) * 0.9, "high_step_time_s": (predicted or 0.0) * 1.1,
    }  # fmt: skip
    base = {"id": "x-001", "source": "s", "model": "m", "hardware": "H100", "gpus": "16", "trust": "A",
            "global_batch_sequences": "8", "seq_len": "1024"}  # fmt: skip
    return Scored(base | row, answer)


def test_a_group_counts_once() -> None:
    scored = [
        item(1.1, 1.0),
        item(1.3, 1.0),
        item(1.2, 1.0),
        item(0.9, 1.0, model="other"),
        item(None, 1.0),
    ]
    found = errors(scored, "step_time_s", TABLES["runs"])
    assert found["scored"] == 4
    assert found["measured"] == 5
    assert found["groups"] == 2
    assert found["median_abs_error"] == pytest.approx((0.2 + 0.1) / 2)
    assert found["bias"] == pytest.approx((0.2 - 0.1) / 2)
    assert found["p90_abs_error"] == pytest.approx(0.2)


def test_rows_that_do_not_count_are_left_out_of_the_sum_only() -> None:
    scored = [
        item(1.0, 1.0),
        item(9.0, 1.0, trust="C"),
        item(9.0, 1.0, dup_of="x-001"),
        item(9.0, 1.0, flags="odd"),
    ]
    summary = summarise("runs", scored)
    assert (summary["num_rows"], summary["ok"], summary["num_counted"]) == (4, 4, 1)
    assert summary["step_time_s"]["median_abs_error"] == 0.0
    assert clean({"trust": "B", "time_kind": "measured"})


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"hardware": "H100-80GB", "gpus": "8.0"}, "dense, one host"),
        ({"hardware": "A100-80GB", "gpus": "9"}, "dense, two hosts and more"),
        ({"hardware": "GB200", "gpus": "64", "n_experts": "128"}, "MoE"),
        ({"hardware": "TPU v5p", "gpus": "512", "n_experts": "8"}, "TPU"),
        ({"hardware": "Ascend 910B (64GB)", "gpus": "8"}, "Ascend"),
        ({"hardware": "trn1", "gpus": "512"}, "Trainium"),
    ],
)
def test_sets(row: dict[str, str], name: str) -> None:
    assert category(row) == name
    assert name in CATEGORIES


def test_order_of_plans() -> None:
    assert spearman([1, 2, 3, 4], [1, 2, 3, 4]) == 1.0
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == -1.0
    assert spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(0.866, abs=1e-3)
    plans = [item(1.0, 2.0), item(2.0, 3.0), item(3.0, 5.0)]
    assert ranking(plans) == {"groups": 1, "mean_spearman": 1.0}
    assert ranking(plans[:2])["mean_spearman"] is None


def test_coverage_and_worst() -> None:
    scored = [item(1.0, 1.05), item(1.0, 1.5), item(None, 1.0)]
    assert coverage(scored) == {"rows": 2, "inside": 0.5}
    assert worst(scored, "step_time_s")[0][0] == pytest.approx(-1 / 3)
    assert reasons(scored) == {"unsupported: because": 1}


def test_family_is_what_stands_before_the_number() -> None:
    assert family("dsv3-gb200-opt-013") == "dsv3-gb200-opt"
    assert family("plain") == "plain"


def test_bands_hold_one_and_favour_the_faster() -> None:
    assert "" in bands()
    for found in bands().values():
        assert found.low < found.high
        assert found.order > 0
    assert band("nothing of that name") == bands()[""]
    assert likelihood(1.0, 1.0, 0.1) == 0.5
    assert likelihood(1.0, 2.0, 0.05) > 0.99
    assert likelihood(2.0, 1.0, 0.05) == pytest.approx(1.0 - likelihood(1.0, 2.0, 0.05))


def test_a_band_is_the_quantiles_of_measured_over_predicted() -> None:
    rows = [("MoE", ("s", "m", "h"), 0.95 + i / 100) for i in range(11)]
    found = fit_band(rows)
    assert (found.low, found.high) == (pytest.approx(0.96), pytest.approx(1.04))


def test_progress_bar() -> None:
    assert line("scoring", 0, 0, 0.0).endswith("0/0, 0 s")


def test_shipped_tables_have_what_the_scorers_read() -> None:
    with (DATA / "runs.csv").open(newline="", encoding="utf-8") as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == 1232
    assert all(row["source"] for row in runs)
    for kind, count in (("kernels", 3000), ("collectives", 2500)):
        with (DATA / f"{kind}.csv").open(newline="", encoding="utf-8") as file:
            assert sum(1 for _ in file) > count


def _table(tmp_path: Path, ids: tuple[str, ...]) -> Path:
    """Return a table of some rows of the shipped one, and one that cannot be read."""
    with (DATA / "runs.csv").open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = [row for row in reader if row["id"] in ids]
        names = list(reader.fieldnames or ())
    path = tmp_path / "runs.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows([*rows, rows[0] | {"gpus": "several"}])
    return path


def test_the_command_scores_a_table(tmp_path: Path) -> None:
    path = _table(tmp_path, ("mpt-156", "titan-001"))
    out = tmp_path / "rows.csv"
    result = CliRunner().invoke(
        application(),
        [
            "scoreboard",
            "--runs",
            str(path),
            "--json",
            "--csv",
            str(out),
            "--figure",
            str(tmp_path / "f.png"),
        ],
    )
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert [row["status"] for row in answer["rows"]] == ["ok", "ok", "invalid"]
    assert [row["row"] for row in answer["rows"]] == [0, 1, 2]
    first = answer["rows"][0]
    assert first["low_step_time_s"] < first["predicted_step_time_s"] < first["high_step_time_s"]
    assert first["table"] == "runs"
    assert answer["summary"]["invalid"] == 1
    assert answer["summary"]["step_time_s"]["scored"] == 2
    assert len(out.read_text().splitlines()) == 4
    assert (tmp_path / "f.png").stat().st_size > 10_000


@pytest.mark.parametrize(("content", "words"), [(b"\xff\xfe", "UTF-8"), (b"id,gpus\n", "no rows")])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        score("runs", path)


def test_a_figure_of_nothing_says_so() -> None:
    assert (
        scoreboard_figure({"runs": [item(None, 1.0)]})._suptitle.get_text()
        == "No row could be scored"
    )  # type: ignore[attr-defined]
