"""Other machines: counts, degrees and diameters that their makers print."""

import networkx as nx
import numpy as np
import pytest

from sim.errors import TopologyError
from sim.units import GB, us
from tests.topologies.routes_check import balanced, names, pairs
from topologies import cluster
from topologies.link_kinds import link_kind
from topologies.multi_site import multi_site


def test_cloudmatrix_counts() -> None:
    machine = cluster("cloudmatrix-384")
    facts = machine.facts
    assert (facts["l1_switches"], facts["l2_switches"]) == (336, 112)
    assert (facts["transceivers_scale_up"], facts["transceivers"]) == (5376, 6912)
    assert facts["power_W"] == 559e3
    up = machine.link_index["host0/l1-->super0/l2-"]
    assert machine.links.bandwidth[up] == pytest.approx(8 * 392 * GB)  # non-blocking
    graph = machine.graph
    assert {d for n, d in graph.out_degree if "/l1-" in n} == {8 + 16}  # 8 devices, its plane's 16
    assert {d for n, d in graph.out_degree if "/l2-" in n} == {48}


def test_cloudmatrix_planes_stay_apart() -> None:
    graph = cluster("cloudmatrix-384").graph
    upper = {n for n in graph["host0/l1-3"] if "/l2-" in n}
    assert upper == {f"super0/l2-{i}" for i in range(112) if i % 7 == 3}


def test_nvl72_rack() -> None:
    machine = cluster("gb200-nvl72", 144)
    assert machine.facts["power_W"] == 2 * 145e3
    assert machine.facts["nvswitches"] == 36
    assert machine.graph.out_degree("rack0/nvswitch0") == 72
    assert names(machine, 0, 71) == {"gpu0->rack0/nvswitch", "rack0/nvswitch->gpu71"}
    assert "leaf0->gpu72" in names(machine, 0, 72) or "gpu0->leaf0" in names(machine, 0, 72)


def test_dgx_a100_switches() -> None:
    graph = cluster("a100-host").graph
    assert {graph["gpu0"][n]["cables"] for n in graph["gpu0"] if "nvswitch" in n} == {2}
    assert len([n for n in graph["gpu0"] if "nvswitch" in n]) == 6


def test_full_mesh_hosts() -> None:
    for name in ("mi300x-host", "ascend-910b-host"):
        graph = cluster(name).graph.subgraph([f"{p}{i}" for p in ("gpu", "npu") for i in range(8)])
        assert nx.is_isomorphic(nx.Graph(graph), nx.complete_graph(8))


def test_cube_mesh_has_six_links_a_device() -> None:
    machine = cluster("v100-host")
    links = machine.links
    nvlink = [k.name for k in machine.link_kinds].index("nvlink2")
    assert (
        np.bincount(links.src[links.kind == nvlink], links.width[links.kind == nvlink])[:8].tolist()
        == [6] * 8
    )
    routes = machine.routes([0], [7])
    assert routes.share.sum() == pytest.approx(2.0)  # not joined: two hops
    assert nx.diameter(nx.Graph(machine.graph.subgraph(f"gpu{i}" for i in range(8)))) == 2


def test_dual_plane_spreads_over_both() -> None:
    machine = cluster("hpn-h800", 1024)
    assert machine.facts["leaf_switches"] == 16
    routes = machine.routes([0], [8])
    assert sorted(routes.share.tolist()) == [0.5] * 4
    assert names(machine, 0, 8) == {f"gpu0->plane{i}/leaf0" for i in range(2)} | {
        f"plane{i}/leaf0->gpu8" for i in range(2)
    }
    pod = cluster("hpn-h800", 15360)
    assert (pod.facts["leaf_switches"], pod.facts["spine_switches"]) == (240, 120)


def test_boardfly_diameter_and_links() -> None:
    machine = cluster("tpu-8i", 1152)
    graph = nx.Graph(machine.graph)
    assert nx.diameter(nx.Graph(cluster("tpu-8i", 32).graph)) == 3
    assert max(d for _, d in graph.degree) <= 6
    assert machine.facts["groups"] == 36
    reach = nx.single_source_shortest_path_length(graph, "tpu0")
    assert max(reach.values()) == 7
    src = np.zeros(1151, np.int64)
    routes = machine.routes(src, np.arange(1, 1152))
    hops = np.bincount(routes.pair, routes.share)
    assert hops.max() <= 7 + 1e-9
    balanced(machine, *pairs(1152, 100))


def test_boardfly_errors() -> None:
    for size in (6, 48):
        with pytest.raises(TopologyError, match=f"num_devices={size} is not made of whole"):
            cluster("tpu-8i", size)


def test_ub_mesh_is_a_product_of_full_meshes() -> None:
    machine = cluster("ub-mesh", 64)
    rooks = nx.cartesian_product(nx.complete_graph(8), nx.complete_graph(8))
    assert nx.is_isomorphic(nx.Graph(machine.graph), rooks)
    whole = cluster("ub-mesh", 1024)
    assert {d for _, d in whole.graph.out_degree} == {7 + 7 + 3 + 3}
    assert whole.routes([0], [1023]).share.sum() == pytest.approx(4.0)
    paths = whole.routes([0], [9])  # two axes differ: two orders
    assert sorted(paths.share.tolist()) == [0.5] * 4


def test_ub_mesh_errors() -> None:
    with pytest.raises(TopologyError, match="fills no grid"):
        cluster("ub-mesh", 22)
    with pytest.raises(TopologyError, match="is not made of whole meshes of 64"):
        cluster("atlas-950", 100)


def test_two_sites() -> None:
    machine = cluster("two-datacenters", 1024)
    nic = link_kind("ndr-400")
    assert machine.path_latency([0], [512])[0] == pytest.approx(
        40 * 5 * us + link_kind("fibre").latency + 2 * nic.latency + 2 * nic.constants["switch_hop"]
    )
    assert "site0/spine->site1/spine" in names(machine, 0, 512)
    balanced(machine, *pairs(1024, 200))


def test_asymmetric_sites_of_two_kinds() -> None:
    sites = [cluster("h100-fat-tree", 64), cluster("mi300x-fat-tree", 32)]
    machine = multi_site(sites, bandwidth=[[0, 10 * GB], [20 * GB, 0]], distance=1000.0)
    assert machine.num_devices == 96
    assert {machine.device(0).name, machine.device(95).name} == {"h100-sxm", "mi300x"}
    there, back = (
        machine.links.bandwidth[
            [
                l
                for l in machine.routes([a], [b]).link
                if machine.link_kinds[machine.links.kind[l]].name == "fibre"
            ]
        ]
        for a, b in ((0, 95), (95, 0))
    )
    assert (there.tolist(), back.tolist()) == ([10 * GB], [20 * GB])
    balanced(machine, *pairs(96, 200))


def test_sites_that_cannot_be_joined() -> None:
    with pytest.raises(TopologyError, match="no network to leave by"):
        multi_site([cluster("h100-host")] * 2, bandwidth=GB, distance=0.0)
    with pytest.raises(TopologyError, match="1 site cannot"):
        multi_site([cluster("h100-fat-tree", 8)], bandwidth=GB, distance=0.0)
    with pytest.raises(TopologyError, match="must be above 0"):
        multi_site([cluster("h100-fat-tree", 8)] * 2, bandwidth=0.0, distance=0.0)


def test_virgo_joins_superpods() -> None:
    machine = cluster("tpu-8t", 134400)
    assert machine.facts["slices"] == 14
    assert machine.facts["bisection_Bps"] * 2 * 8 == pytest.approx(47e15, rel=1e-3)
    assert machine.facts["optical_switches"] == 48 * 14


def test_trainium_instance_is_a_torus() -> None:
    graph = nx.Graph(
        cluster("trainium2", 16).graph.subgraph(
            cluster("trainium2", 16).vertex_name(i) for i in range(16)
        )
    )
    assert nx.is_isomorphic(graph, nx.grid_2d_graph(4, 4, periodic=True))
