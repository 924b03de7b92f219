"""The race, and how fast schedules are made."""

import pytest

from workloads.schedules import SCHEDULES, Times
from workloads.schedules.race import race
from workloads.schedules.timing import time_orders


def test_the_race_ranks_all_legal_schedules():
    entrants = race(num_stages=4, num_microbatches=8)
    assert {entrant.name for entrant in entrants} == set(SCHEDULES)
    makespans = [entrant.times.makespan for entrant in entrants if entrant.times]
    assert makespans == sorted(makespans)
    assert entrants[-1].name == "naive"


def test_the_race_under_a_memory_limit():
    entrants = race(num_stages=4, num_microbatches=8, memory_limit=3)
    ran = {entrant.name: entrant for entrant in entrants if entrant.times}
    assert all(entrant.peak <= 3 for entrant in ran.values())
    assert {"v-half", "v-min", "naive", "zb-1p"} <= set(ran)
    out = {entrant.name: entrant.reason for entrant in entrants if not entrant.times}
    assert out["gpipe"] == "holds 8 microbatches of activations, limit 3"


def test_schedules_that_cannot_run_say_why():
    entrants = race(num_stages=3, num_microbatches=5)
    out = {entrant.name: entrant.reason for entrant in entrants if not entrant.times}
    assert "even number of stages" in out["dualpipe"]
    assert "at least 6 microbatches" in out["dualpipev"]


@pytest.mark.parametrize("name", [n for n, kind in SCHEDULES.items() if not kind.searched])
def test_fixed_schedules_of_32_stages_play_every_action(name):
    kind = SCHEDULES[name]
    orders = kind.generate(num_stages=32, num_microbatches=256)
    times = time_orders(orders, kind.placement(32), Times())
    assert times.makespan >= max(times.busy)
