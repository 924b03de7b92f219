"""Collectives on shipped fabrics: closed forms, conservation of bytes, what the libraries choose."""

import numpy as np
import pytest

from sim.collectives import ALGORITHMS, Communicator
from sim.collectives.torus import rounds as torus_rounds
from sim.collectives.transfer import check
from sim.errors import CollectiveError
from sim.units import Gbit, GiB, MiB
from topologies import cluster


def loads(machine, groups, kind, algorithm):
    total = np.zeros(machine.num_links)
    for phase in Communicator(machine, groups).plan(kind, 1.0, algorithm).phases:
        total[phase.links] += phase.loads
    return total


def pure(machine, groups, kind, algorithm):
    """Seconds a byte by the graph alone: the most loaded link at its payload rate."""
    share = loads(machine, groups, kind, algorithm)
    return float((share / machine.link_capacity).max())


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (2, 4), (4, 4, 4), (2, 3, 2)])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
def test_torus_rounds(shape, kind):
    n = int(np.prod(shape))
    check(kind, n, torus_rounds(kind, n, shape=shape))


@pytest.mark.parametrize(
    ("name", "n", "algorithm"),
    [
        ("h100-host", 8, "ring"),
        ("mi300x-host", 8, "ring"),
        ("mi300x-host", 8, "direct"),
        ("h100-fat-tree", 64, "ring"),
        ("h100-fat-tree", 64, "hierarchical"),
        ("h100-fat-tree", 64, "halving_doubling"),
        ("gb200-nvl72", 144, "hierarchical"),
        ("tpu-v5p", 512, "torus"),
        ("tpu-v5e", 64, "torus"),
        ("cloudmatrix-384", 64, "ring"),
    ],
)
def test_all_reduce_is_reduce_scatter_plus_all_gather_on_every_link(name, n, algorithm):
    machine = cluster(name, n)
    parts = [
        loads(machine, np.arange(n), kind, algorithm) for kind in ("reduce_scatter", "all_gather")
    ]
    assert loads(machine, np.arange(n), "all_reduce", algorithm) == pytest.approx(sum(parts))


def test_torus_all_gather_is_v_over_both_directions_of_every_axis():
    machine = cluster("tpu-v5p", 512)
    assert machine.shape == (8, 8, 8)
    one_way = machine.link_capacity.max()
    assert pure(machine, np.arange(512), "all_gather", "torus") == pytest.approx(
        (1 - 1 / 512) / (2 * one_way * 3), rel=1e-9
    )


def test_all_to_all_is_a_quarter_of_all_gather_on_one_bidirectional_ring():
    machine = cluster("tpu-v5e", 256)
    assert machine.shape == (16, 16)
    row = np.arange(16)
    gather = pure(machine, row, "all_gather", "torus")
    # An all-to-all moves nbytes a member, an all-gather of the same array nbytes in all.
    exchange = pure(machine, row, "all_to_all", "torus") / 16
    assert exchange == pytest.approx(gather / 4, rel=0.07)  # n / (n - 1)
    assert pure(machine, row, "all_to_all", "pairwise") == pytest.approx(16 * exchange)


def test_an_open_axis_carries_one_direction_of_a_ring():
    machine = cluster("tpu-v5e", 256)
    half_row = np.arange(8)
    one_way = machine.link_capacity.max()
    assert pure(machine, half_row, "all_gather", "torus") == pytest.approx(7 / 8 / one_way)


@pytest.mark.parametrize(("name", "least"), [("h200-host", 5), ("b200-host", 6)])
def test_in_switch_reduction_starts_at_its_group_size_for_all_reduce_alone(name, least):
    machine = cluster(name)
    for n in range(2, 9):
        comm = Communicator(machine, np.arange(n))
        assert (comm.plan("all_reduce", 8 * GiB).algorithm == "nvls") == (n >= least)
        assert comm.plan("all_gather", 8 * GiB).algorithm == "ring"


def test_bus_bandwidth_jumps_with_in_switch_reduction():
    machine = cluster("h200-host")
    times = {
        n: Communicator(machine, np.arange(n)).plan("all_reduce", 8 * GiB).alone for n in (4, 8)
    }
    busbw = {n: 2 * (n - 1) / n * 8 * GiB / t for n, t in times.items()}
    assert busbw[8] / busbw[4] > 1.2


def test_mesh_bandwidth_grows_with_the_group():
    machine = cluster("mi355x-host")
    times = {
        n: Communicator(machine, np.arange(n)).plan("all_gather", GiB).alone for n in (2, 4, 8)
    }
    busbw = {n: (n - 1) / n * GiB / t for n, t in times.items()}
    assert busbw[4] / busbw[2] == pytest.approx(3, rel=0.15)
    assert busbw[8] / busbw[2] == pytest.approx(7, rel=0.2)


def test_a_ring_over_many_hosts_loads_every_adapter_alike():
    machine = cluster("h100-fat-tree", 64)
    share = loads(machine, np.arange(64), "all_gather", "ring")
    kinds = [machine.link_kinds[k].name for k in machine.links.kind]
    sent = [
        s
        for s, kind, v in zip(share, kinds, machine.links.src, strict=True)
        if kind == "ndr-400" and v < 64
    ]
    assert np.array(sent) == pytest.approx(63 / 64 / 8)


def test_sharp_halves_the_bytes_of_the_adapters():
    machine = cluster("h100-fat-tree", 1024)
    nic = (machine.links.src < 1024) & (machine.links.bandwidth == 400 * Gbit)
    ring, sharp = (loads(machine, np.arange(1024), "all_reduce", a)[nic] for a in ("ring", "sharp"))
    assert sharp == pytest.approx(1 / 8)
    assert ring == pytest.approx(2 * 1023 / 1024 / 8)


def test_kernels_hold_compute_units_only_where_kernels_move_the_data():
    gpu = Communicator(cluster("h100-host"), np.arange(8))
    assert 0.1 < gpu.plan("all_gather", GiB).phases[0].sm_share < 0.2
    assert (
        gpu.plan("all_reduce", GiB).phases[0].sm_share
        < gpu.plan("all_gather", GiB).phases[0].sm_share
    )
    tpu = Communicator(cluster("tpu-v5p", 64), np.arange(64))
    assert tpu.plan("all_gather", GiB).phases[0].sm_share == 0.0


def test_groups_share_what_one_alone_would_have():
    machine = cluster("llama3-roce", 6144)
    pods = np.arange(6144).reshape(2, 3072).T
    alone = Communicator(machine, pods[:1]).plan("all_gather", GiB, "ring")
    together = Communicator(machine, pods).plan("all_gather", GiB, "ring")
    (one,), (all_,) = alone.phases, together.phases
    assert one.latency == all_.latency
    adapter = 0.97 * 400 * Gbit
    assert all_.ceiling == pytest.approx(adapter / 7 / 0.5)
    assert one.ceiling > 5 * all_.ceiling


def test_skewed_all_to_all_takes_as_long_as_its_hottest_member():
    machine = cluster("h100-host")
    comm = Communicator(machine, np.arange(8))
    even = np.full((8, 8), 128 * MiB)
    skewed = even.copy()
    skewed[:, 3] *= 2
    flat = comm.plan("all_to_all", 8 * 128 * MiB)
    assert comm.all_to_all(even).alone == pytest.approx(flat.alone, rel=1e-9)
    assert comm.all_to_all(skewed).alone == pytest.approx(2 * flat.alone, rel=0.05)
    with pytest.raises(CollectiveError, match="give \\(8, 8\\) bytes"):
        comm.all_to_all(np.ones((4, 4)))


def test_every_algorithm_names_why_it_cannot_run():
    machine = cluster("h100-host")
    comm = Communicator(machine, np.arange(7))
    able = {"ring", "nvls", "pairwise", "star", "ep", "bruck"}
    for name in set(ALGORITHMS) - able:
        with pytest.raises(CollectiveError, match=name):
            comm.plan(min(ALGORITHMS[name].kinds), MiB, name)
    for name in able:
        assert comm.plan(min(ALGORITHMS[name].kinds), MiB, name).algorithm == name
