"""Plans of collectives on small hand-made machines."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from sim.cluster import LinkKind
from sim.collectives import Communicator, point_to_point
from sim.errors import CollectiveError

_spec = importlib.util.spec_from_file_location(
    "collective_machines", Path(__file__).with_name("collective_machines.py")
)
machines = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(machines)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_ring_all_reduce_is_two_n_minus_one_steps_of_a_plus_s_over_nb(n):
    cluster = machines.hosts(1, n, fast=100.0, inner=LinkKind(name="inner", latency=0.25))
    plan = Communicator(cluster, np.arange(n)).plan("all_reduce", 700.0, "ring")
    assert plan.alone == pytest.approx(2 * (n - 1) * (0.5 + 700.0 / (n * 100.0)), rel=1e-12)


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_ring_all_gather_takes_half_an_all_reduce(kind):
    comm = Communicator(machines.hosts(1, 8), np.arange(8))
    assert 2 * comm.plan(kind, 64.0, "ring").alone == comm.plan("all_reduce", 64.0, "ring").alone


def test_a_ring_over_hosts_uses_every_nic():
    cluster = machines.hosts(4, 8, fast=1000.0, slow=10.0)
    plan = Communicator(cluster, np.arange(32)).plan("all_reduce", 80.0, "ring")
    (phase,) = plan.phases
    assert phase.nbytes / phase.ceiling == pytest.approx(2 * 31 / 32 * 80 / 8 / 10)


def test_hierarchical_is_a_chain_of_three():
    cluster = machines.hosts(4, 8, fast=1000.0, slow=10.0)
    plan = Communicator(cluster, np.arange(32)).plan("all_reduce", 80.0, "hierarchical")
    inside, between = 7 / 8 * 80 / 1000, 2 * 3 / 4 * 10 / 10
    assert [p.alone for p in plan.phases] == pytest.approx([inside, between, inside])


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical"])
def test_all_reduce_moves_reduce_scatter_plus_all_gather_on_every_link(algorithm):
    cluster = machines.hosts(3, 4)
    comm = Communicator(cluster, np.arange(12))

    def loads(kind):
        total = np.zeros(len(cluster.links.bandwidth))
        for phase in comm.plan(kind, 1.0, algorithm).phases:
            total[phase.links] += phase.loads
        return total

    assert loads("all_reduce") == pytest.approx(loads("reduce_scatter") + loads("all_gather"))


def test_groups_that_run_at_once_share_links():
    cluster = machines.hosts(2, 4, slow=10.0)
    one = Communicator(cluster, [[0, 4]]).plan("all_gather", 20.0, "ring")
    four = Communicator(cluster, np.arange(8).reshape(2, 4).T).plan("all_gather", 20.0, "ring")
    assert one.alone == four.alone == pytest.approx(1.0)
    assert len(four.phases[0].links) == 4 * len(one.phases[0].links)


def test_sends_of_many_pairs():
    cluster = machines.hosts(2, 4, slow=10.0)
    assert point_to_point(cluster, [0, 1], [4, 5], 20.0).alone == pytest.approx(2.0)
    assert point_to_point(cluster, [0, 1], [4, 4], 20.0).alone == pytest.approx(4.0)


def test_one_member_needs_no_time():
    plan = Communicator(machines.hosts(1, 2), [[0], [1]]).plan("all_reduce", 8.0)
    assert plan.alone == 0.0
    assert plan.phases == ()


@pytest.mark.parametrize("nbytes", [0, -1, float("nan")])
def test_sizes_are_above_zero(nbytes):
    with pytest.raises(CollectiveError, match="above zero"):
        Communicator(machines.hosts(1, 2), [0, 1]).plan("all_reduce", nbytes)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0, 1], [1, 2]], "device 1 is listed twice"),
        ([[0, 9]], "device 9 does not exist"),
        ([[]], "empty"),
    ],
)
def test_groups_list_devices_once(groups, message):
    with pytest.raises(CollectiveError, match=message):
        Communicator(machines.hosts(1, 4), groups)


@pytest.mark.parametrize(
    ("kind", "algorithm", "message"),
    [
        ("all_reduce", "rign", "did you mean 'ring'"),
        ("allreduce", "auto", "did you mean 'all_reduce'"),
        ("all_reduce", "pairwise", "pairwise cannot do all_reduce; choose from"),
        ("all_reduce", "nvls", "needs NVSwitches"),
        ("all_reduce", "hierarchical", "needs equal subgroups, got \\[4, 3\\]"),
    ],
)
def test_what_cannot_run_is_an_error_by_name(kind, algorithm, message):
    comm = Communicator(machines.hosts(2, 4), np.arange(7))
    with pytest.raises(CollectiveError, match=message):
        comm.plan(kind, 8.0, algorithm)


def test_a_group_must_be_connected():
    cluster = machines.hosts(1, 4)
    router = cluster.router

    def broken(a, b):
        routes = router(a, b)
        keep = (np.asarray(a)[routes.pair] != 2) & (np.asarray(b)[routes.pair] != 2)
        return type(routes)(*(x[keep] for x in routes))

    object.__setattr__(cluster, "router", broken)
    with pytest.raises(CollectiveError, match="devices 1 and 2 are not connected"):
        Communicator(cluster, np.arange(4)).plan("all_reduce", 8.0, "ring")
