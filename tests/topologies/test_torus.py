"""Tori and meshes: wrap rules, shapes, known small graphs, twisted tori, slices."""

import networkx as nx
import numpy as np
import pytest

from sim.errors import TopologyError
from sim.units import GB
from tests.topologies.routes_check import balanced, names, pairs
from topologies import cluster
from topologies.link_kinds import link_kind


def ici(name: str, size: int, **parameters: object) -> nx.Graph:
    """Return the torus links alone, undirected."""
    graph = cluster(name, size, **parameters).graph
    return nx.Graph((a, b) for a, b, d in graph.edges(data=True) if d["kind"].startswith("ici"))


def test_eight_chips_are_the_cube() -> None:
    assert nx.is_isomorphic(ici("tpu-v4", 8), nx.hypercube_graph(3))


def test_sixteen_chips_are_a_grid() -> None:
    assert nx.is_isomorphic(ici("tpu-v5e", 16), nx.grid_2d_graph(4, 4))


@pytest.mark.parametrize("shape", [(4, 4, 4), (4, 4, 8)])
def test_whole_cubes_close(shape: tuple[int, ...]) -> None:
    known = nx.grid_graph(shape, periodic=True)
    mine = ici("tpu-v4", int(np.prod(shape)), shape="x".join(map(str, shape)))
    assert mine.number_of_edges() == known.number_of_edges()
    assert {d for _, d in mine.degree} == {6}
    assert nx.diameter(mine) == sum(side // 2 for side in shape)


@pytest.mark.parametrize(
    ("name", "shape", "wrap"),
    [
        ("tpu-v4", "2x4x4", (False, False, False)),
        ("tpu-v4", "4x4x4", (True, True, True)),
        ("tpu-v5p", "4x4x12", (True, True, True)),
        ("tpu-v5e", "8x16", (False, True)),
        ("tpu-v5e", "16x16", (True, True)),
        ("tpu-v6e", "8x8", (False, False)),
        ("tpu-v3", "32x32", (True, True)),
        ("tpu-v3", "16x16", (False, False)),
    ],
)
def test_wrap_rules(name: str, shape: str, wrap: tuple[bool, ...]) -> None:
    size = int(np.prod([int(side) for side in shape.split("x")]))
    assert cluster(name, size, shape=shape).wrap == wrap


@pytest.mark.parametrize(
    ("name", "size", "shape"),
    [
        ("tpu-v4", 4096, (16, 16, 16)),
        ("tpu-v5p", 8960, (16, 20, 28)),
        ("tpu-v5p", 6144, (16, 16, 24)),
        ("tpu-v4", 512, (8, 8, 8)),
        ("tpu-v5e", 128, (8, 16)),
    ],
)
def test_default_shapes_are_the_published_ones(
    name: str, size: int, shape: tuple[int, ...]
) -> None:
    assert cluster(name, size).shape == shape


def test_published_counts_of_a_v4_pod() -> None:
    facts = cluster("tpu-v4", 4096).facts
    assert facts["cubes"] == 64
    assert facts["optical_links"] == 6144
    assert facts["optical_switches"] == 48
    assert facts["bisection_Bps"] == pytest.approx(2 * 256 * 45 * GB)  # 23 TB/s, published as 24


def test_dimension_order_and_halves() -> None:
    torus = cluster("tpu-v4", 64)
    assert names(torus, 0, 5) == {"tpu0->tpu4", "tpu4->tpu5"}
    half = torus.routes([0], [2])  # two hops either way round
    assert sorted(half.share.tolist()) == [0.5] * 4
    hop = link_kind("ici-v4").latency
    assert torus.path_latency([0, 0], [5, 42]) == pytest.approx([2 * hop, 6 * hop])


def test_adaptive_spreads_over_orders() -> None:
    torus = cluster("tpu-v4", 64, routing="adaptive")
    assert names(torus, 0, 5) == {"tpu0->tpu4", "tpu4->tpu5", "tpu0->tpu1", "tpu1->tpu5"}
    balanced(torus, *pairs(64, 200))


def test_all_to_all_loads_every_link_alike() -> None:
    torus = cluster("tpu-v4", 64)
    src, dst = pairs(64, 64 * 64)
    routes = torus.routes(src, dst)
    load = np.bincount(routes.link, routes.share)[: 64 * 6]
    assert load == pytest.approx(np.full(64 * 6, load[0]))
    assert load[0] == pytest.approx(64 * 4 / 8)  # n k / 8 of a ring of k


@pytest.mark.parametrize("shape", ["4x4x8", "4x8x8"])
def test_twisting_lightens_all_to_all(shape: str) -> None:
    size = int(np.prod([int(side) for side in shape.split("x")]))
    worst, far = [], []
    for twisted in (False, True):
        torus = cluster("tpu-v5p", size, shape=shape, twisted=twisted)
        src, dst = pairs(size, size * size)
        routes = torus.routes(src, dst)
        worst.append(np.bincount(routes.link, routes.share).max())
        far.append(np.bincount(routes.pair, routes.share).max())
        balanced(torus, src[:200], dst[:200])
    assert worst[1] < worst[0]
    assert far[1] < far[0]


def test_slices_meet_in_the_data_centre_network() -> None:
    slices = cluster("tpu-v5e", 512)
    assert np.bincount(slices.domain).tolist() == [256, 256]
    assert names(slices, 0, 256) == {
        "tpu0->slice0/dcn", "slice0/dcn->dcn", "dcn->slice1/dcn", "slice1/dcn->tpu256"
    }  # fmt: skip
    assert cluster("tpu-v5p", 128, slices=2).shape == (4, 4, 4)


def test_hosts_are_trays() -> None:
    assert np.bincount(cluster("tpu-v4", 64).host).tolist() == [4] * 16
    assert np.bincount(cluster("tpu-v5e", 64).host).tolist() == [8] * 8


@pytest.mark.parametrize(
    ("name", "size", "parameters", "says"),
    [
        ("tpu-v4", 96, {}, "whole 4x4x4 cubes; the nearest that do: 64, 128"),
        ("tpu-v4", 96, {"shape": "4x4x6"}, "4x4x6 is not made of whole"),
        ("tpu-v4", 64, {"shape": "4x4x8"}, "has 128 devices, the slice 64"),
        ("tpu-v4", 64, {"shape": "8x8"}, "must have 3 axes"),
        ("tpu-v4", 64, {"shape": "4xfour"}, "numbers joined by x"),
        ("tpu-v5e", 64, {"shape": "2x32"}, "longer than 16"),
        ("tpu-v4", 64, {"twisted": True}, "no twisted form"),
        ("tpu-v5e", 301, {}, "does not split into 2 equal slices"),
        ("h100-fat-tree", 64, {"routing": "dimension"}, "needs a torus"),
        ("tpu-v4", 64, {"routing": "rail"}, "needs servers on rails"),
    ],
)
def test_errors(name: str, size: int, parameters: dict[str, object], says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        cluster(name, size, **parameters)
