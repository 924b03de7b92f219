"""The contract of every family, on every preset: counts, links, routes, bisection, facts, errors."""

import networkx as nx
import numpy as np
import pytest

from sim.cluster import Cluster
from sim.errors import TopologyError
from tests.topologies.routes_check import balanced, pairs
from topologies import CLUSTERS, cluster

SIZES = (1, 2, 8, 64)
SMALL = {
    "two-datacenters": (32, 64),
    "gb200-nvl72": (4, 72, 144),
    "cloudmatrix-384": (8, 24, 768),
    "hpn-h800": (8, 1032),
    "tpu-v4": (1, 8, 64, 128),
    "tpu-v5e": (4, 8, 128, 512),
    "tpu-v3": (8, 1024),
    "tpu-8t": (64, 19200),
    "tpu-8i": (4, 32, 64, 1152),
    "ub-mesh": (8, 64, 256),
    "atlas-950": (64, 192),
    "llama3-roce": (8, 24, 6144),
}


def cases() -> list[tuple[str, int]]:
    """Return every preset at a few small sizes."""
    return [
        (name, size)
        for name, preset in CLUSTERS.items()
        for size in SMALL.get(name, SIZES)
        if not preset.max_devices or size <= preset.max_devices
    ]


@pytest.mark.parametrize(("name", "size"), cases())
def test_every_pair_is_routed(name: str, size: int) -> None:
    machine = cluster(name, size)
    assert machine.num_devices == size == len(machine.host) == len(machine.domain)
    src, dst = pairs(size, 200)
    balanced(machine, src, dst)


@pytest.mark.parametrize("name", CLUSTERS)
def test_links_go_both_ways_at_one_rate(name: str) -> None:
    machine = cluster(name, SMALL.get(name, (8,))[-1] if name != "tpu-8t" else 64)
    links = machine.links
    there = dict(
        zip(zip(links.src.tolist(), links.dst.tolist(), strict=True), links.bandwidth, strict=True)
    )
    assert len(there) == machine.num_links
    assert all(there[b, a] == rate for (a, b), rate in there.items())
    assert (links.bandwidth > 0).all()
    assert (links.width > 0).all()


@pytest.mark.parametrize("name", CLUSTERS)
def test_routes_lie_in_the_graph(name: str) -> None:
    machine = cluster(name, SMALL.get(name, (8,))[0])
    edges = {data["link"] for _, _, data in machine.graph.edges(data=True)}
    src, dst = pairs(machine.num_devices)
    routes = machine.routes(src, dst)
    assert set(routes.link.tolist()) <= edges
    if machine.num_devices > 1:
        fewest = nx.shortest_path_length(machine.graph, machine.vertex_name(int(src[1])))
        hops = np.bincount(routes.pair, routes.share, len(src))
        assert hops[1] >= fewest[machine.vertex_name(int(dst[1]))] - 1e-9


def halves(machine: Cluster) -> np.ndarray:
    """Return which devices are on one side of the natural middle."""
    if machine.coordinates is not None and len(np.unique(machine.domain)) == 1 and machine.shape:
        axis = int(np.argmax(machine.shape))
        return np.asarray(machine.coordinates[:, axis] < machine.shape[axis] / 2)
    return np.arange(machine.num_devices) < machine.num_devices / 2


BISECTIONS = [
    *((name, 8) for name in CLUSTERS if name.endswith("-host")),
    *(("h100-fat-tree", n) for n in (16, 64, 256)),
    ("a100-superpod", 320),
    ("b300-fat-tree", 64),
    ("aws-p4de", 32),
    ("gb200-nvl72", 72),
    ("gb200-nvl72", 144),
    ("llama3-roce", 64),
    ("llama3-roce", 6144),
    ("hpn-h800", 64),
    ("mi300x-fat-tree", 32),
    ("tpu-v4", 8),
    ("tpu-v4", 64),
    ("tpu-v4", 128),
    ("tpu-v5e", 32),
    ("tpu-v5e", 256),
    ("tpu-8i", 64),
    ("cloudmatrix-384", 64),
    ("ub-mesh", 64),
    ("two-datacenters", 64),
    ("trainium2", 16),
]


@pytest.mark.parametrize(("name", "size"), BISECTIONS)
def test_bisection_is_the_maximum_flow_between_halves(name: str, size: int) -> None:
    machine = cluster(name, size)
    first = halves(machine)
    graph = nx.DiGraph()
    links = machine.links
    for a, b, rate in zip(
        links.src.tolist(), links.dst.tolist(), links.bandwidth.tolist(), strict=True
    ):
        graph.add_edge(a, b, capacity=rate)
    for device in range(size):
        graph.add_edge(*(("from", device) if first[device] else (device, "to")))
    inside = machine.facts["bisection_Bps"]
    flow = nx.maximum_flow_value(graph, "from", "to")
    if machine.top >= 0 and len(np.unique(machine.domain)) == 1:
        assert flow >= inside * (1 - 1e-9)  # the network beyond the domain adds its own
    else:
        assert flow == pytest.approx(inside)


@pytest.mark.parametrize("name", CLUSTERS)
def test_more_devices_than_there_are(name: str) -> None:
    most = CLUSTERS[name].max_devices
    if most:
        with pytest.raises(TopologyError, match=f"num_devices={most + 1} does not fit {name}"):
            cluster(name, most + 1)
    with pytest.raises(TopologyError, match="num_devices=0"):
        cluster(name, 0)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(TopologyError, match="did you mean 'h100-fat-tree'"):
        cluster("h100-fattree")
    with pytest.raises(TopologyError, match="did you mean 'oversubscription'"):
        cluster("h100-fat-tree", 64, oversubscripton=2)
    with pytest.raises(TopologyError, match="unknown device"):
        cluster("h100-fat-tree", 64, device="h1000")
    with pytest.raises(TopologyError, match="unknown routing"):
        cluster("h100-fat-tree", 64, routing="ecpm")
    with pytest.raises(TopologyError, match="unknown link kind"):
        cluster("h100-fat-tree", 64, nic="ndr-500")


def test_cached_by_value() -> None:
    assert cluster("h100-fat-tree", 64) is cluster("h100-fat-tree", 64)
    one = cluster("h100-fat-tree", 64, degrade=["leaf0->spine*0.5"])
    assert one is cluster("h100-fat-tree", 64, degrade=["leaf0->spine*0.5"])
    assert one is not cluster("h100-fat-tree", 64)


def test_parameters_reach_host_and_family() -> None:
    machine = cluster("h100-fat-tree", 64, device="h200-sxm", nic_bandwidth=25e9)
    assert machine.device(0).name == "h200-sxm"
    nic = machine.link_index["gpu0->leaf0"]
    assert machine.links.bandwidth[nic] == 25e9
    assert cluster("gb200-nvl72", 144, oversubscription=2.0).facts[
        "bisection_Bps"
    ] == pytest.approx(cluster("gb200-nvl72", 144).facts["bisection_Bps"] / 2)


def test_sixty_four_of_seventy_two() -> None:
    machine = cluster("gb200-nvl72", 128, used_per_domain=64)
    assert np.bincount(machine.domain).tolist() == [64, 64]
    assert machine.vertex_name(64) == "gpu72"
    balanced(machine, *pairs(128, 200))


def test_hashing_options_without_hashing() -> None:
    with pytest.raises(TopologyError, match="no effect without routing='ecmp'"):
        cluster("h100-fat-tree", 64, seed=1)
