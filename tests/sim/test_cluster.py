"""Cluster by hand: a triangle, a square and a pair of switches with numbers anyone can check."""

import networkx as nx
import numpy as np
import pytest

from sim.cluster import Cluster, from_graph
from sim.device import Device
from sim.errors import TopologyError
from sim.units import GB, us

SLOW = Device(
    name="slow",
    vendor="none",
    kind="gpu",
    peak={"bf16": 1.0},
    memory_bytes=1.0,
    memory_bandwidth=1.0,
    compute_units=1,
)


def square() -> Cluster:
    """Return four devices in a ring of 10 GB/s, 1 us links."""
    graph = nx.cycle_graph(4)
    nx.set_node_attributes(graph, "device", "kind")
    nx.set_edge_attributes(graph, {e: {"bandwidth": 10 * GB, "latency": us} for e in graph.edges})
    return from_graph(graph)


def star(**edge: float) -> Cluster:
    """Return three devices on one switch."""
    graph = nx.Graph()
    graph.add_nodes_from("abc", kind="device")
    graph.add_node("s", kind="switch")
    for name in "abc":
        graph.add_edge(name, "s", **({"bandwidth": 10 * GB, "latency": us} | edge))
    return from_graph(graph, efficiency=0.8)


def rows(cluster: Cluster, src: int, dst: int) -> dict[str, float]:
    """Return the share of each link, by name."""
    routes = cluster.routes([src], [dst])
    return {
        cluster.link_name(link): share
        for link, share in zip(routes.link.tolist(), routes.share.tolist(), strict=True)
    }


def test_ties_are_spread_equally() -> None:
    assert rows(square(), 0, 2) == {"0->1": 0.5, "1->2": 0.5, "0->3": 0.5, "3->2": 0.5}


def test_a_neighbour_is_one_hop() -> None:
    assert rows(square(), 3, 0) == {"3->0": 1.0}


def test_ties_follow_the_cables() -> None:
    graph = nx.DiGraph()
    graph.add_nodes_from([0, 1], kind="device")
    for switch, width in (("p", 3), ("q", 1)):
        graph.add_edge(0, switch, bandwidth=GB, width=width)
        graph.add_edge(switch, 1, bandwidth=GB, width=width)
    shares = rows(from_graph(graph), 0, 1)
    assert shares == {"0->p": 0.75, "p->1": 0.75, "0->q": 0.25, "q->1": 0.25}


def test_a_device_to_itself_crosses_nothing() -> None:
    assert rows(square(), 1, 1) == {}
    assert square().path_latency([1], [1]).tolist() == [0.0]


def test_path_latency_adds_the_hops() -> None:
    assert square().path_latency([0, 0, 0], [1, 2, 3]) == pytest.approx([1 * us, 2 * us, 1 * us])


def test_capacity_is_rate_times_efficiency() -> None:
    assert star().link_capacity == pytest.approx(np.full(6, 8 * GB))


def test_graph_is_the_one_given() -> None:
    assert nx.is_isomorphic(square().graph.to_undirected(), nx.cycle_graph(4))
    assert star().graph["a"]["s"]["bandwidth"] == 10 * GB


def test_slow_link_is_a_copy() -> None:
    before = star()
    after = before.with_bandwidth("a->s", 0.25)
    link = after.link_index["a->s"]
    assert after.link_capacity[link] == pytest.approx(2 * GB)
    assert before.link_capacity[link] == pytest.approx(8 * GB)


def test_slow_device_is_one_device() -> None:
    cluster = star().with_device(1, SLOW)
    assert [cluster.device(i).name for i in range(3)] == ["plain", "slow", "plain"]


def test_use_renumbers_devices_and_keeps_links() -> None:
    cluster = square().use([2, 0])
    assert cluster.num_devices == 2
    assert rows(cluster, 0, 1) == rows(square(), 2, 0)


def test_use_of_a_use() -> None:
    cluster = square().use([3, 2, 1]).use([2, 0])
    assert rows(cluster, 0, 1) == rows(square(), 1, 3)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: square().use([1, 1]), "device 1 is listed twice"),
        (lambda: square().routes([0], [4]), "device 4 does not exist"),
        (lambda: square().routes([-1], [0]), "device -1 does not exist"),
        (lambda: star().with_bandwidth("a->z", 0.5), "unknown link 'a->z'"),
        (lambda: star().with_bandwidth(0, 0), "factor=0 must be above 0"),
        (lambda: star(bandwidth=0), "bandwidth=0"),
        (lambda: from_graph(nx.path_graph(2)), "no device"),
    ],
)
def test_errors_name_the_value(wrong: object, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        wrong()  # type: ignore[operator]


def test_disconnected_pair_has_no_path() -> None:
    graph = nx.Graph()
    graph.add_nodes_from([0, 1], kind="device")
    with pytest.raises(TopologyError, match="no path from 0 to 1"):
        from_graph(graph).routes([0], [1])
