"""The validator: what is illegal, and the cell it points at. User schedules from CSV."""

import pytest

from sim.errors import ScheduleError
from workloads.schedules import SCHEDULES, Placement, Times
from workloads.schedules.check import check_orders
from workloads.schedules.grid import slots_grid, time_grid
from workloads.schedules.read import parse_orders, read_schedule
from workloads.schedules.timing import time_orders


@pytest.mark.parametrize(
    ("rows", "words", "cell"),
    [
        ("F0.0 BW0.0|BW0.0 F0.0", "rank 1, slot 0: BW0.0 comes before F0.0", "BW0.0 <-- here"),
        ("F0.0 W0.0 B0.0|F0.0 BW0.0", "rank 0, slot 1: W0.0 comes before B0.0", "W0.0 <-- here"),
        ("F0.0 BW0.0|F0.0 B0.0", "rank 1, slot 2: W0.0 is missing", "(W0.0) <-- here"),
        ("BW0.0|F0.0 BW0.0", "BW0.0 comes before F0.0", "<-- here"),
        ("F0.0 BW0.0|F0.0 BW0.0 W0.0", "rank 1, slot 2: W0.0 is done twice", "W0.0 <-- here"),
        ("F0.0 F0.0 BW0.0|F0.0 BW0.0", "rank 0, slot 1: F0.0 is done twice", "F0.0 <-- here"),
        ("F1.0 BW0.0|F0.0 BW0.0", "a rank has chunks 0 to 0", "F1.0 <-- here"),
        ("F0.0 BW0.5|F0.0 BW0.0", "there are 0 to 0", "BW0.5 <-- here"),
        ("F0.0|F0.0 BW0.0", "rank 0, slot 1: B0.0 is missing", "(B0.0) <-- here"),
        ("|F0.0 BW0.0", "rank 0, slot 0: F0.0 is missing", "(F0.0) <-- here"),
    ],
)
def test_illegal_schedules(rows, words, cell):
    orders = tuple(parse_orders(row)[0] if row else () for row in rows.split("|"))
    with pytest.raises(ScheduleError) as error:
        check_orders(orders, Placement("loop", 2), 1)
    assert words in str(error.value)
    assert cell in str(error.value)


def test_a_deadlock_names_who_waits_for_what():
    orders = parse_orders("F0.0 BW0.0 F0.1 BW0.1\nF0.0 F0.1 BW0.0 BW0.1")
    with pytest.raises(ScheduleError) as error:
        check_orders(orders, Placement("loop", 2), 2)
    assert "deadlock: rank 0 at BW0.0 waits for B0.0 of rank 1" in str(error.value)
    assert "rank 1 at F0.1 waits for F0.1 of rank 0" in str(error.value)
    assert "BW0.0 <-- here" in str(error.value)


def test_pairs_are_a_forward_and_a_backward():
    orders = parse_orders("F0.0&F0.1 BW0.0 BW0.1")
    with pytest.raises(ScheduleError, match="pair F with BW"):
        check_orders(orders, Placement("loop", 1), 2)
    check_orders(parse_orders("F0.0 F0.1&BW0.0 BW0.1"), Placement("loop", 1), 2)


def test_number_of_rows():
    with pytest.raises(ScheduleError, match="1 rows for 2 ranks"):
        check_orders(parse_orders("F0.0 BW0.0"), Placement("loop", 2), 1)


def test_grid_of_slots():
    orders = SCHEDULES["1f1b"].generate(num_stages=2, num_microbatches=2)
    assert slots_grid(orders).splitlines() == [
        "slot  rank 0  rank 1",
        "0     F0.0    F0.0",
        "1     F0.1    BW0.0",
        "2     BW0.0   F0.1",
        "3     BW0.1   BW0.1",
    ]


def test_grid_over_time():
    orders = SCHEDULES["gpipe"].generate(num_stages=2, num_microbatches=1)
    played = time_orders(orders, Placement("loop", 2), Times())
    assert time_grid(played, width=24).splitlines() == [
        "rank 0   F0--............BW0-----",
        "rank 1   ....F0--BW0-----........",
    ]


def test_a_schedule_file(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("# mine\nF0.0,F0.1,,BW0.0,BW0.1\nF0.0,BW0.0,F0.1,BW0.1\n")
    orders, placement, count = read_schedule(path)
    assert (placement.num_ranks, placement.chunks, count) == (2, 1, 2)
    assert orders == SCHEDULES["1f1b"].generate(num_stages=2, num_microbatches=2)
    path.write_text("rank,order\n1,F0.0 BW0.0\n0,F0.0 B0.0 W0.0\n")
    assert len(read_schedule(path)[0][0]) == 3
    path.write_text("F0.0,oops\n")
    with pytest.raises(ScheduleError, match="row 0, cell 1: 'oops' is not an action"):
        read_schedule(path)
    path.write_text("\n")
    with pytest.raises(ScheduleError, match="no rows"):
        read_schedule(path)
    with pytest.raises(ScheduleError, match="cannot read"):
        read_schedule(tmp_path / "none.csv")


@pytest.mark.parametrize(("name", "kind"), [("zb-v", "v"), ("dualpipe", "bidir"), ("bfs", "loop")])
def test_every_placement_can_be_read_back(tmp_path, name, kind):
    orders = SCHEDULES[name].generate(num_stages=4, num_microbatches=8)
    path = tmp_path / "s.csv"
    lines = (",".join("&".join(map(str, entry)) for entry in order) for order in orders)
    path.write_text("\n".join(lines))
    assert read_schedule(path, kind) == (orders, SCHEDULES[name].placement(4), 8)
