"""Overlays: slow and dead links, detours, hashed routing."""

import numpy as np
import pytest

from sim.errors import TopologyError
from sim.overlay import degrade, ecmp
from sim.units import GB
from tests.topologies.routes_check import balanced, names
from topologies import cluster

TREE = cluster("h100-fat-tree", 512)


def test_slowing_a_trunk() -> None:
    slow = degrade(TREE, "leaf0->spine*0.5")
    link = slow.link_index["leaf0->spine"]
    assert slow.links.bandwidth[link] == pytest.approx(32 * 50 * GB / 2)
    assert slow.links.bandwidth[slow.link_index["spine->leaf0"]] == pytest.approx(1600 * GB)


def test_one_switch_of_a_trunk_is_its_share() -> None:
    slow = degrade(TREE, "leaf0<->spine3*0.5")  # 4 of 32 cables at half rate
    for name in ("leaf0->spine", "spine->leaf0"):
        assert slow.links.bandwidth[slow.link_index[name]] == pytest.approx(
            1600 * GB * (1 - 4 / 32 / 2)
        )


def test_removing_cables() -> None:
    cut = degrade(TREE, "leaf0->spine:8*0")
    link = cut.link_index["leaf0->spine"]
    assert (cut.links.width[link], cut.links.bandwidth[link]) == (24, pytest.approx(1200 * GB))


def test_a_dead_switch_of_eight_takes_an_eighth() -> None:
    dead = degrade(TREE, "spine5*0")
    for link in np.flatnonzero(TREE.links.width == 32).tolist():
        assert dead.links.bandwidth[link] == pytest.approx(1400 * GB)


def test_traffic_goes_round_a_removed_trunk() -> None:
    cut = degrade(TREE, "leaf0<->spine*0")
    assert names(TREE, 0, 300) == {"gpu0->leaf0", "leaf0->spine", "spine->leaf12", "leaf12->gpu300"}
    around = names(cut, 0, 300)
    assert "leaf0->spine" not in around
    assert {"gpu0->host0/nvswitch", "gpu1->leaf1"} <= around
    balanced(cut, np.array([0]), np.array([300]))


def test_others_keep_their_route() -> None:
    cut = degrade(TREE, "leaf0<->spine*0")
    assert names(cut, 1, 300) == names(TREE, 1, 300)


def test_removed_link_of_a_torus() -> None:
    torus = degrade(cluster("tpu-v4", 64), "tpu0<->tpu1*0")
    routes = torus.routes([0], [1])
    assert routes.share.sum() == pytest.approx(
        3.0
    )  # three hops round, in the closed axis or beside


def test_no_other_way_says_so() -> None:
    with pytest.raises(TopologyError, match="no path from gpu0 to gpu300"):
        degrade(TREE, ["gpu0->leaf0*0", "gpu0->host0/nvswitch*0"]).routes([0], [300])


def test_one_text_with_commas() -> None:
    both = degrade(TREE, "leaf0->spine*0.5, leaf1->spine*0.25")
    rates = [both.links.bandwidth[both.link_index[f"leaf{i}->spine"]] for i in (0, 1)]
    assert rates == pytest.approx([800 * GB, 400 * GB])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("leaf0->spine", "is not TARGET"),
        ("leaf0->spine*2", "FACTOR from 0"),
        ("leaf0->spine:x*0", "'x' cables"),
        ("leaf0->spine:40*0", "wants 40 cables .* has 32"),
        ("leaf0->spnie*0", "did you mean 'leaf0->spine'"),
    ],
)
def test_lines_that_cannot_be_read(line: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        degrade(TREE, line)


def test_ecmp_collides_where_adaptive_does_not() -> None:
    src = np.arange(256)
    ideal = TREE.routes(src, src + 256)
    most = np.bincount(ideal.link, ideal.share / TREE.links.width[ideal.link]).max()
    assert most == pytest.approx(1.0)
    hashed = ecmp(TREE, seed=1)
    routes = hashed.routes(src, src + 256)
    load = np.bincount(routes.link, routes.share, hashed.num_links)
    assert load.max() >= 2
    between = (hashed.links.src >= 512) & (hashed.links.dst >= 512)
    assert (load[between] == 0).any()
    balanced(hashed, src, src + 256)


def test_ecmp_keeps_all_bandwidth_and_is_seeded() -> None:
    one, same, other = (ecmp(TREE, seed=seed) for seed in (1, 1, 2))
    assert one.links.bandwidth.sum() == pytest.approx(TREE.links.bandwidth.sum())
    src = np.arange(256)
    links = [c.routes(src, src + 256).link for c in (one, same, other)]
    assert np.array_equal(links[0], links[1])
    assert not np.array_equal(links[0], links[2])


def test_more_flows_collide_less() -> None:
    def worst(flows: int) -> float:
        hashed = ecmp(TREE, seed=5, flows=flows)
        routes = hashed.routes(np.arange(256), np.arange(256) + 256)
        return float(np.bincount(routes.link, routes.share).max())

    assert worst(16) < worst(1)


def test_ecmp_paths_meet_in_one_switch() -> None:
    tree = ecmp(cluster("h100-fat-tree", 4096), seed=3)
    src = np.arange(0, 4096, 37)
    balanced(tree, src, (src + 2051) % 4096)


def test_a_dead_core_under_ecmp_is_avoided() -> None:
    tree = degrade(ecmp(cluster("h100-fat-tree", 4096), seed=3), "core3*0")
    src = np.arange(0, 4096, 97)
    balanced(tree, src, (src + 2051) % 4096)
    routes = tree.routes(src, (src + 2051) % 4096)
    assert (tree.links.width[routes.link] > 0).all()


def test_ecmp_without_parallel_cables_is_an_error() -> None:
    with pytest.raises(TopologyError, match="no effect"):
        ecmp(cluster("h100-host"))
