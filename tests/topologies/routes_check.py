"""What every route must do: leave its source whole, arrive whole, lose nothing on the way."""

import numpy as np

from sim.cluster import Cluster


def pairs(num_devices: int, most: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Return all ordered pairs, or ``most`` of them, drawn with a fixed seed."""
    count = num_devices * num_devices
    drawn = min(count, most)
    chosen = np.random.default_rng(0).choice(count, drawn, replace=False)
    return chosen % num_devices, chosen // num_devices


def balanced(machine: Cluster, src: np.ndarray, dst: np.ndarray) -> None:
    """Assert that of every pair 1 leaves src, 1 reaches dst and every other vertex passes on what it gets."""
    routes = machine.routes(src, dst)
    size = machine.num_vertices
    net = np.zeros(len(src) * size)
    np.add.at(net, routes.pair * size + machine.links.src[routes.link], routes.share)
    np.add.at(net, routes.pair * size + machine.links.dst[routes.link], -routes.share)
    want = np.zeros_like(net)
    row = np.arange(len(src)) * size
    np.add.at(want, row + src, 1.0)
    np.add.at(want, row + dst, -1.0)
    np.testing.assert_allclose(net, want, atol=1e-9)


def names(machine: Cluster, src: int, dst: int) -> set[str]:
    """Return the names of the links a pair crosses."""
    return {machine.link_name(link) for link in machine.routes([src], [dst]).link.tolist()}
