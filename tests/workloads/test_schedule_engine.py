"""Every schedule, played by the engine on unit costs, takes exactly what its list schedule says."""

import networkx as nx
import pytest

from sim.cluster import Cluster, from_graph
from sim.engine import simulate
from sim.errors import DeadlockError
from tests.sim.hand_made import UNIT
from tests.workloads.toy import toy_program
from workloads.schedules import SCHEDULES, Placement, Times, Token
from workloads.schedules.timing import time_orders


def wires(p: int, latency: float) -> Cluster:
    """Every pair of devices on a wire of its own: as fast as can be, ``latency`` away."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(p), kind="device", domain=0)
    for a in range(p):
        for b in range(p):
            if a != b:
                graph.add_edge(a, b, bandwidth=1e30, latency=latency)
    return from_graph(graph, device=UNIT)


def generated(name: str, p: int, m: int, times: Times):
    kind = SCHEDULES[name]
    orders = kind.generate(num_stages=p, num_microbatches=m, times=times)
    return orders, kind.placement(p)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("comm", [0.0, 0.1])
@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (4, 12)])
def test_the_engine_plays_a_schedule_in_its_exact_time(name, comm, p, m) -> None:
    times = Times(comm=comm)
    orders, placement = generated(name, p, m, times)
    exact = time_orders(orders, placement, times)
    timeline = simulate(toy_program(orders, placement, times), wires(p, comm))
    assert timeline.step_time == pytest.approx(exact.makespan, rel=1e-12)
    for rank in range(p):
        spans = list(timeline.spans(timeline.class_of_rank(rank), "compute"))
        assert [s.start for s in spans] == pytest.approx(exact.starts[rank], rel=1e-12)
        assert [s.end for s in spans] == pytest.approx(exact.ends[rank], rel=1e-12)


def test_unequal_times() -> None:
    times = Times(f=1.0, b=1.5, w=0.75, comm=0.25, fb=2.5)
    for name in ("1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipev"):
        orders, placement = generated(name, 4, 8, times)
        exact = time_orders(orders, placement, times)
        timeline = simulate(toy_program(orders, placement, times), wires(4, 0.25))
        assert timeline.step_time == pytest.approx(exact.makespan, rel=1e-12), name


@pytest.mark.parametrize(("p", "m"), [(2, 2), (4, 8), (8, 16)])
def test_bubbles_of_gpipe_and_1f1b(p, m) -> None:
    """(p-1)/m of the ideal m (f + b + w), Huang et al. 2019 and Narayanan et al. 2021."""
    times = Times()
    for name in ("gpipe", "1f1b"):
        orders, placement = generated(name, p, m, times)
        step = simulate(toy_program(orders, placement, times), wires(p, 0.0)).step_time
        assert (step - 3 * m) / (3 * m) == pytest.approx((p - 1) / m, rel=1e-12)


@pytest.mark.parametrize("v", [1, 2, 4])
def test_the_bubble_of_interleaving_is_a_vth(v) -> None:
    """(p-1)/(v m), Narayanan et al. 2021, section 2.2."""
    p, m, kind = 4, 8, SCHEDULES["interleaved"]
    orders = kind.generate(num_stages=p, num_microbatches=m, chunks=v)
    program = toy_program(orders, kind.placement(p, v), Times())
    step = simulate(program, wires(p, 0.0)).step_time
    assert (step - 3 * m) / (3 * m) == pytest.approx((p - 1) / (v * m), rel=1e-12)


@pytest.mark.parametrize("p", [2, 4, 8])
def test_naive_layer_parallelism_uses_one_device_at_a_time(p) -> None:
    orders, placement = generated("naive", p, 4, Times())
    step = simulate(toy_program(orders, placement, Times()), wires(p, 0.0)).step_time
    assert 3 * 4 / step == pytest.approx(1 / p, rel=1e-12)


def test_orders_that_wait_for_each_other_deadlock() -> None:
    """Rank 0 wants the gradient of microbatch 0 before it sends anything forward."""
    first = tuple((Token(kind, 0, 0),) for kind in ("BW", "F"))
    second = tuple((Token(kind, 0, 0),) for kind in ("F", "BW"))
    program = toy_program((first, second), Placement("loop", 2, 1), Times())
    with pytest.raises(DeadlockError) as caught:
        simulate(program, wires(2, 0.0))
    assert "rank 0, stream 'recv.B0': 'recv.B0' waits for rank 1 to send" in str(caught.value)
    assert "rank 1, stream 'recv.F0': 'recv.F0' waits for rank 0 to send" in str(caught.value)
