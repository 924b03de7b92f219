"""The schedule command's results, for JSON, for a person and as a figure."""

import json

import pytest

from experiments.schedule_command import gantt_figure, parse_times, race, race_text, schedule, text
from sim.errors import ScheduleError
from workloads.schedules import Times


def test_the_keys_of_the_contract():
    result = schedule("1f1b", 4, 8, None, "1,1,1,0")
    assert json.loads(json.dumps(result)) == result
    assert result["makespan"] == result["span"] == 33
    assert result["busy"] == [24] * 4
    assert result["bubble_fraction"] == pytest.approx(9 / 33)
    assert result["bubble_overhead"] == pytest.approx(3 / 8)
    assert result["peak_activations"] == [4, 3, 2, 1]
    assert result["peak_activations_w"] == [4, 3, 2, 1]
    assert result["orders"][3][:4] == ["F0.0", "BW0.0", "F0.1", "BW0.1"]
    assert result["messages"] == 2 * 3 * 8
    assert sum(result["bubbles"][0].values()) == pytest.approx(9)


def test_times_are_of_a_ranks_whole_share():
    whole = schedule("interleaved", 4, 8, 2, "3,2,1,0")
    assert whole["busy"] == pytest.approx([8 * 6] * 4)
    assert whole["makespan"] == pytest.approx(8 * 6 + 3 * 6 / 2)
    # two directions on two copies: an action is of a whole stage
    assert schedule("dualpipe", 4, 8)["busy"] == pytest.approx([24] * 4)


@pytest.mark.parametrize("times", ["1", "1,a,1", "1,1,1,0,1,1", [1, 2], "1,1,-1"])
def test_wrong_times(times):
    with pytest.raises(ScheduleError):
        parse_times(times)
    assert parse_times("1,2,3") == Times(1, 2, 3)


def test_missing_sizes_and_options_without_effect():
    with pytest.raises(ScheduleError, match="needs stages and microbatches"):
        schedule("1f1b")
    with pytest.raises(ScheduleError, match="no option memory_limit"):
        schedule("1f1b", 2, 2, memory_limit=3)
    with pytest.raises(ScheduleError, match="stands on a v"):
        schedule("zb-v", 2, 3, placement="bidir")


def test_a_schedule_from_a_file(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("F0.0,F0.1,BW0.0,BW0.1\nF0.0,BW0.0,F0.1,BW0.1\n")
    assert schedule(str(path))["makespan"] == schedule("1f1b", 2, 2)["makespan"]
    with pytest.raises(ScheduleError, match="stages=2, not 3"):
        schedule(str(path), 3)


def test_text_and_race_for_a_person():
    shown = text(schedule("zb-v", 4, 8))
    assert "makespan 25.5" in shown
    assert "messages 96" in shown
    rows = race(4, 8, "1,1,1,0", memory_limit=4)
    assert rows[0]["makespan"] == 25.5
    table = race_text(rows)
    assert "holds 8 microbatches of activations, limit 4" in table


def test_figure_has_a_cell_an_action():
    pytest.importorskip("matplotlib")
    figure = gantt_figure(schedule("1f1b", 2, 3), schedule("dualpipev", 2, 4), title="two")
    assert [len(axes.patches) for axes in figure.axes] == [2 * 6 + 2, 4 * 8 * 1 + 2 + _extra()]


def _extra() -> int:
    """W of the actions of dualpipev that are split, as cells of their own."""
    orders = schedule("dualpipev", 2, 4)["orders"]
    return sum(token.startswith("W") for row in orders for token in row)
