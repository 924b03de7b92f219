"""Rounds as flows: what they carry is what the single activity carries, and on an idle network they take as long."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from sim.cluster import LinkKind
from sim.collectives import ALGORITHMS, Communicator
from sim.collectives.flow_rounds import flow_rounds
from sim.collectives.layout import blocks
from sim.errors import CollectiveError

_spec = importlib.util.spec_from_file_location(
    "collective_machines", Path(__file__).with_name("collective_machines.py")
)
machines = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(machines)

EXACT = [
    "ring",
    "tree",
    "halving_doubling",
    "hierarchical",
    "pairwise",
    "hierarchical_a2a",
    "bruck",
    "star",
]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("shape", [(2, 4), (4, 2)])
def test_rounds_carry_the_bytes_of_the_single_activity(name, shape):
    cluster = machines.hosts(*shape)
    n = cluster.num_devices
    algorithm = ALGORITHMS[name]
    for kind in sorted(algorithm.kinds - {"broadcast", "reduce"}):
        by_rounds = np.zeros((n, n))
        for r in flow_rounds(cluster, np.arange(n), kind, algorithm):
            np.add.at(by_rounds, (r.src, r.dst), r.share * r.repeat)
        (block,) = blocks(cluster, np.arange(n)[None])
        by_stages = np.zeros((n, n))
        for stage in algorithm.stages(kind, block):
            np.add.at(by_stages, (stage.src, stage.dst), stage.load)
        assert by_rounds == pytest.approx(by_stages), kind


def played(cluster, rounds, nbytes):
    """Each round lasts as long as its slowest flow, links shared by what they carry."""
    time = 0.0
    for r in rounds:
        routes = cluster.routes(r.src, r.dst)
        loads = np.bincount(
            routes.link, routes.share * r.share[routes.pair], minlength=cluster.num_links
        )
        time += r.repeat * (
            cluster.path_latency(r.src, r.dst).max()
            + nbytes * (loads / cluster.link_capacity).max()
        )
    return time


@pytest.mark.parametrize("name", ["ring", "halving_doubling", "pairwise"])
def test_on_an_idle_symmetric_network_both_take_as_long(name):
    cluster = machines.hosts(1, 8, inner=LinkKind(name="inner", latency=0.25))
    for kind in sorted(ALGORITHMS[name].kinds - {"broadcast", "reduce"}):
        plan = Communicator(cluster, np.arange(8)).plan(kind, 800.0, name)
        rounds = flow_rounds(cluster, np.arange(8), kind, ALGORITHMS[name])
        assert played(cluster, rounds, 800.0) == pytest.approx(plan.alone, rel=0.01), kind


def test_a_long_ring_is_one_round_many_times():
    cluster = machines.hosts(1, 512)
    (only,) = flow_rounds(cluster, np.arange(512), "all_reduce", ALGORITHMS["ring"])
    assert only.repeat == 2 * 511
    assert only.share == pytest.approx(1 / 512)


def test_what_cannot_run_is_an_error():
    with pytest.raises(CollectiveError, match="hierarchical needs"):
        flow_rounds(machines.hosts(1, 4), np.arange(4), "all_reduce", ALGORITHMS["hierarchical"])
