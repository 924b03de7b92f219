"""The rounds fidelity: every transfer a flow; on an idle network as long as the single activity."""

import importlib.util
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from sim.cluster import LinkKind, from_graph
from sim.collectives import ALGORITHMS, Communicator
from sim.engine import LinkChange, simulate
from sim.errors import CollectiveError, ProgramError
from sim.network.rounds import Pattern, batches
from sim.network.shared import Flow, Shared
from sim.program import Action, Collective, Program, Script, Segment
from sim.rounds import play_rounds
from topologies import cluster as preset

_spec = importlib.util.spec_from_file_location(
    "collective_machines", Path(__file__).with_name("collective_machines.py")
)
machines = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(machines)


def star(n, bandwidth=1.0, latency=0.0):
    """n devices on one switch."""
    graph = nx.DiGraph()
    for i in range(n):
        graph.add_node(f"d{i}", kind="device", domain=0)
    for i in range(n):
        for a, b in ((f"d{i}", "switch"), ("switch", f"d{i}")):
            graph.add_edge(a, b, bandwidth=bandwidth, latency=latency / 2)
    return from_graph(graph)


def both(cluster, groups, kind, nbytes, algorithm, **more):
    return [
        play_rounds(cluster, groups, kind, nbytes, algorithm, fidelity=fidelity, **more)
        for fidelity in ("activity", "rounds")
    ]


# Idle networks


@pytest.mark.parametrize("n", [2, 3, 8])
def test_a_ring_takes_two_n_minus_one_steps_of_a_plus_s_over_nb(n) -> None:
    """All-reduce of 24 bytes: 2 (n - 1) rounds of 2 s of latency and 24 / n bytes at 3 bytes/s."""
    seconds = play_rounds(star(n, 3.0, latency=2.0), [range(n)], "all_reduce", 24.0, "ring")
    assert seconds == pytest.approx(2 * (n - 1) * (2.0 + 24.0 / n / 3.0))


IDLE = [
    ("h100-host", 8),
    ("h100-fat-tree", 64),
    ("tpu-v5p", 64),
    ("tpu-v5e", 16),
    ("mi300x-host", 8),
    ("cloudmatrix-384", 32),
]


@pytest.mark.parametrize(("name", "n"), IDLE)
@pytest.mark.parametrize("nbytes", [2.0**16, 2.0**28])
def test_every_algorithm_takes_as_long_as_its_activity_within_one_per_cent(name, n, nbytes) -> None:
    machine = preset(name, n)
    played = 0
    for algorithm in ALGORITHMS.values():
        for kind in sorted(algorithm.kinds):
            try:
                activity, rounds = both(machine, [range(n)], kind, nbytes, algorithm.name)
            except CollectiveError:
                continue
            played += 1
            assert rounds == pytest.approx(activity, rel=0.01), (algorithm.name, kind)
    assert played >= 5


def test_rounds_that_differ_follow_one_another() -> None:
    """Halving-doubling on 2 hosts of 2, NVLink 100 and NIC 10: partner at 1 (half the bytes), then at 2 (a quarter).

    All-gather of 400 bytes, backwards: 100 bytes over the NIC at 10, then 200 inside at 100: 10 + 2 s.
    """
    machine = machines.hosts(2, 2, fast=100.0, slow=10.0)
    for seconds in both(machine, [range(4)], "all_gather", 400.0, "halving_doubling"):
        assert seconds == pytest.approx(12.0)


# Contention


def two_at_once(
    cluster, first, second, fidelity, nbytes=240.0, algorithm="ring", kind="all_reduce"
):
    """Two collectives, each on groups of its own axis, at once from two streams of every rank."""
    n = cluster.num_devices
    streams = {
        axis: (Segment(Action("x"), (Collective(axis, kind, axis, nbytes, algorithm=algorithm),)),)
        for axis in ("one", "two")
    }
    program = Program(
        scripts=(Script(streams=streams),),
        script_of_rank=np.zeros(n, int),
        groups={"one": np.atleast_2d(first), "two": np.atleast_2d(second)},
    )
    return simulate(program, cluster, fidelity=fidelity).step_time


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling"])
def test_two_alike_collectives_on_the_same_links_take_twice_as_long(algorithm) -> None:
    n = 8
    alone = play_rounds(star(n), [range(n)], "all_reduce", 240.0, algorithm)
    for fidelity in ("activity", "rounds"):
        together = two_at_once(star(n), range(n), range(n), fidelity, algorithm=algorithm)
        assert together == pytest.approx(2 * alone, rel=0.05)


@pytest.mark.parametrize(("name", "n"), [("h100-fat-tree", 64), ("tpu-v5p", 64)])
def test_under_symmetric_contention_they_agree_within_five_per_cent(name, n) -> None:
    """Rings of 8 along one axis and of all devices, at once."""
    machine = preset(name, n)
    first, second = np.arange(n).reshape(-1, 8), np.arange(n).reshape(8, -1).T
    for nbytes in (2.0**20, 2.0**28):
        activity, rounds = (
            two_at_once(machine, first, second, fidelity, nbytes)
            for fidelity in ("activity", "rounds")
        )
        assert rounds == pytest.approx(activity, rel=0.05)


def test_groups_that_share_an_uplink_share_it_in_both() -> None:
    """Two rings of 2 over hosts of 2 share nothing but the top switch; with one NIC a host they would."""
    machine = machines.hosts(2, 2, fast=100.0, slow=10.0)
    activity, rounds = both(machine, [[0, 2], [1, 3]], "all_gather", 80.0, "ring")
    assert activity == pytest.approx(rounds) == pytest.approx(4.0)


# A link that changes on the way


@pytest.mark.parametrize("fidelity", ["activity", "rounds"])
def test_a_link_that_slows_in_mid_run_slows_what_is_left(fidelity) -> None:
    """Ring all-gather of 80 bytes on 8 devices, 10 bytes a round at 1 byte/s: 70 s. Half speed from 35 s: 35 + 70."""
    machine = star(8)
    link = machine.link_index["d3->switch"]
    seconds = play_rounds(
        machine,
        [range(8)],
        "all_gather",
        80.0,
        "ring",
        fidelity=fidelity,
        changes=[LinkChange(35.0, link, 0.5)],
    )
    assert seconds == pytest.approx(105.0)


@pytest.mark.parametrize("fidelity", ["activity", "rounds"])
def test_a_link_that_mends_in_mid_run_speeds_what_is_left(fidelity) -> None:
    machine = star(8)
    link = machine.link_index["d3->switch"]
    slow = machine.with_bandwidth(link, 0.5)
    seconds = play_rounds(
        slow,
        [range(8)],
        "all_gather",
        80.0,
        "ring",
        fidelity=fidelity,
        changes=[LinkChange(70.0, link, 1.0)],
    )
    assert seconds == pytest.approx(70.0 + 35.0)


def test_a_slow_link_slows_only_the_groups_that_cross_it() -> None:
    """Two rings of 4 on 8 devices: the broken one takes twice as long; its neighbour's span is untouched."""
    machine = star(8)
    op = Collective("g", "all_gather", "all", 40.0, algorithm="ring")
    program = Program(
        scripts=(Script(streams={"comm": (Segment(Action("x"), (op,)),)}),),
        script_of_rank=np.zeros(8, int),
        groups={"all": np.arange(8).reshape(2, 4)},
    )
    changes = [LinkChange(0.0, machine.link_index["d1->switch"], 0.5)]
    timeline = simulate(program, machine, changes=changes, fidelity="rounds")
    ends = [next(iter(timeline.spans(timeline.class_of_rank(rank)))).end for rank in (0, 4)]
    assert ends == pytest.approx([60.0, 30.0])


# Batches


def rates(cluster, pattern, made):
    """Rate of every batch when all flows of a pattern are under way, from batches and flow by flow."""
    shared = Shared(list(made.capacity))
    flows = [Flow(1e9, batch.load, batch.uses) for batch in made.of[0]]
    shared.start_all(flows)
    single = Shared(cluster.link_capacity.tolist())
    routes = cluster.routes(pattern.src, pattern.dst)
    each = [
        Flow(
            1e9,
            float(pattern.load[i]),
            tuple(
                zip(
                    routes.link[routes.pair == i].tolist(),
                    routes.share[routes.pair == i].tolist(),
                    strict=True,
                )
            ),
        )
        for i in range(len(pattern.src))
    ]
    single.start_all(each)
    batched = [
        flow.rate for flow, batch in zip(flows, made.of[0], strict=True) for _ in range(batch.count)
    ]
    return sorted(batched), sorted(flow.rate for flow in each)


@pytest.mark.parametrize("seed", range(4))
def test_batches_have_the_rates_of_their_flows(seed) -> None:
    """Random flows of two sizes between 12 devices with two slow links."""
    random = np.random.default_rng(seed)
    machine = star(12).with_bandwidth([2, 9], 0.5)
    src, dst = random.integers(0, 12, 40), random.integers(0, 12, 40)
    keep = src != dst
    pattern = Pattern(src[keep], dst[keep], random.choice([1.0, 2.0], keep.sum()))
    found, wanted = rates(machine, pattern, batches(machine, [pattern]))
    assert found == pytest.approx(wanted)


def test_a_shift_on_a_star_is_one_batch_and_a_broken_link_splits_it() -> None:
    machine, everyone = star(16), np.arange(16)
    shift = Pattern(everyone, np.roll(everyone, -1), np.ones(16))
    (whole,) = batches(machine, [shift]).of[0]
    assert whole.count == 16
    broken = machine.with_bandwidth("d3->switch", 0.5)
    parts = batches(broken, [shift]).of[0]
    assert sum(batch.count for batch in parts) == 16
    found, wanted = rates(broken, shift, batches(broken, [shift]))
    assert found == pytest.approx(wanted)


def test_a_ring_of_512_is_played_in_a_few_events_a_round() -> None:
    machine = preset("h100-fat-tree", 512)
    op = Collective("r", "all_reduce", "all", 2.0**30, algorithm="ring")
    program = Program(
        scripts=(Script(streams={"comm": (Segment(Action("x"), (op,)),)}),),
        script_of_rank=np.zeros(512, int),
        groups={"all": np.arange(512)[None]},
    )
    timeline = simulate(program, machine, fidelity="rounds")
    assert 2 * 511 <= timeline.num_events <= 6 * 2 * 511


# What cannot be played


def test_an_unknown_fidelity_is_an_error() -> None:
    with pytest.raises(ProgramError, match="unknown fidelity 'packets'"):
        play_rounds(star(2), [range(2)], "all_gather", 1.0, "ring", fidelity="packets")


def test_an_algorithm_that_cannot_run_is_an_error() -> None:
    with pytest.raises(CollectiveError, match="needs a power of two"):
        play_rounds(star(6), [range(6)], "all_reduce", 1.0, "halving_doubling")


def test_hops_are_part_of_the_latency() -> None:
    machine = machines.hosts(1, 4, inner=LinkKind(name="inner", latency=0.25))
    (phase,) = Communicator(machine, np.arange(4)).plan("all_gather", 8.0, "ring").phases
    assert phase.hops == pytest.approx(3 * 0.5) == pytest.approx(phase.latency)
