"""Fat trees and rack trees: published counts, rails, oversubscription, speed."""

import numpy as np
import pytest

from sim.errors import TopologyError
from sim.units import GB
from tests.topologies.routes_check import balanced, names, pairs
from topologies import cluster
from topologies.link_kinds import link_kind

SUPERPOD = [
    (512, 16, 8, 0),
    (1024, 32, 16, 0),
    (2048, 64, 32, 0),
    (4096, 128, 128, 64),
    (8192, 256, 256, 128),
    (16384, 512, 512, 256),
]
"""NVIDIA DGX H100 SuperPOD reference architecture: devices, leaves, spines, cores."""


@pytest.mark.parametrize(("devices", "leaves", "spines", "cores"), SUPERPOD)
def test_published_counts(devices: int, leaves: int, spines: int, cores: int) -> None:
    facts = cluster("h100-fat-tree", devices).facts
    assert facts["leaf_switches"] == leaves
    assert facts["spine_switches"] == spines
    assert facts.get("core_switches", 0) == cores
    assert facts["spine_cables"] == devices


@pytest.mark.parametrize(("devices", "leaves", "spines", "cores"), SUPERPOD[:4])
def test_no_switch_has_more_cables_than_ports(
    devices: int, leaves: int, spines: int, cores: int
) -> None:
    machine = cluster("h100-fat-tree", devices)
    ports = np.zeros(machine.num_vertices)
    np.add.at(ports, machine.links.src, machine.links.width)
    network = [
        v
        for v in range(devices, machine.num_vertices)
        if machine.vertex_kind[v] in ("leaf", "spine", "core")
    ]
    assert (ports[network] / machine.vertex_count[network]).max() <= 64
    assert machine.vertex_count[network].sum() == leaves + spines + cores


def test_rails() -> None:
    tree = cluster("h100-fat-tree", 512)
    assert names(tree, 3, 11) == {"gpu3->leaf3", "leaf3->gpu11"}
    assert names(tree, 3, 12) == {"gpu3->leaf3", "leaf3->spine", "spine->leaf4", "leaf4->gpu12"}
    assert names(tree, 3, 4) == {"gpu3->host0/nvswitch", "host0/nvswitch->gpu4"}


def test_pxn_changes_rail_inside_the_host() -> None:
    rail = cluster("h100-fat-tree", 512, routing="rail")
    assert names(rail, 3, 12) == {
        "gpu3->host0/nvswitch",
        "host0/nvswitch->gpu4",
        "gpu4->leaf4",
        "leaf4->gpu12",
    }
    assert names(rail, 3, 11) == {"gpu3->leaf3", "leaf3->gpu11"}
    balanced(rail, *pairs(512))


def test_latency_adds_hops() -> None:
    tree = cluster("h100-fat-tree", 4096)
    nvlink, adapter = link_kind("nvlink4"), link_kind("ndr-400")
    nic, switch = adapter.latency, adapter.constants["switch_hop"]
    seconds = tree.path_latency([0, 0, 0, 0], [1, 8, 9, 4095])
    assert seconds == pytest.approx(
        [2 * nvlink.latency, 2 * nic, 2 * nic + 2 * switch, 2 * nic + 4 * switch]
    )


@pytest.mark.parametrize("ratio", [1.0, 2.0, 7.0])
def test_oversubscription_at_the_top(ratio: float) -> None:
    tree = cluster("h100-fat-tree", 4096, oversubscription=ratio)
    up = tree.link_index["pod0/spine->core"]
    assert tree.links.bandwidth[up] == pytest.approx(1024 * 50 * GB / ratio)
    assert tree.facts["bisection_Bps"] == pytest.approx(2048 * 50 * GB / ratio)


def test_oversubscription_by_tier() -> None:
    tree = cluster("h100-fat-tree", 4096, oversubscription=[2, 3])
    assert tree.links.bandwidth[tree.link_index["leaf0->pod0/spine"]] == pytest.approx(800 * GB)
    up = tree.links.bandwidth[tree.link_index["pod0/spine->core"]]
    assert up == pytest.approx(1024 * 50 * GB / 6)
    with pytest.raises(TopologyError, match="1 ratios but 2 tiers"):
        cluster("h100-fat-tree", 4096, oversubscription=[2])
    with pytest.raises(TopologyError, match="must be above 0"):
        cluster("h100-fat-tree", 4096, oversubscription=0)


def test_llama3_pods() -> None:
    roce = cluster("llama3-roce", 16384)
    trunks = [roce.link_index[f"pod{i}/stage->top"] for i in range(6)]
    rates = roce.links.bandwidth[trunks]
    assert rates[:5] == pytest.approx(3072 * 50 * GB / 7)
    assert rates[5] == pytest.approx((16384 - 5 * 3072) * 50 * GB / 7)
    assert names(roce, 0, 8) == {"gpu0->rack0/tor", "rack0/tor->gpu8"}


def test_shared_adapters() -> None:
    cloud = cluster("aws-p4de", 16)
    assert {"gpu0->nic0", "nic0->leaf0"} <= names(cloud, 0, 8)
    assert {"gpu1->nic0", "nic0->leaf0"} <= names(cloud, 1, 8)
    assert cloud.links.bandwidth[cloud.link_index["nic0->leaf0"]] == pytest.approx(12.5 * GB)


def test_errors() -> None:
    with pytest.raises(TopologyError, match="radix=63 must be an even"):
        cluster("h100-fat-tree", 64, radix=63)
    with pytest.raises(TopologyError, match="nics=3 and devices=8"):
        cluster("h100-fat-tree", 64, nics=3)
    with pytest.raises(TopologyError, match="hosts_per_unit=40"):
        cluster("h100-fat-tree", 1024, hosts_per_unit=40)


def test_beyond_three_tiers_is_an_assumption() -> None:
    assert not cluster("h100-fat-tree", 65536).assumptions
    assert "fourth tier" in cluster("h100-fat-tree", 131072).assumptions[0]


@pytest.mark.parametrize("devices", [16384, 131072])
def test_a_ring_of_all_devices_is_routed(devices: int) -> None:
    tree = cluster("h100-fat-tree", devices, hosts_per_unit=32)
    ring = np.arange(devices)
    routes = tree.routes(ring, np.roll(ring, -1))
    assert np.unique(routes.pair).size == devices
