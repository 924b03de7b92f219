"""Links that can never be full: what feeds them, or what they feed, carries no more than they do.

The uplinks of a non-blocking switch are such: whatever the devices below send, the uplinks can
carry. Which group's traffic crosses them, and how much, makes no difference to anybody's time.
"""

import numpy as np

from sim.cluster import Cluster


def never_full(cluster: Cluster) -> np.ndarray:
    """Return which links cannot bind, (num_links,) bool.

    Away from the devices (to a vertex further from them) a link is safe if all that enters its source fits;
    towards them if all that leaves its destination fits. Each such bound rests on links nearer to the devices, so the
    argument ends at links of devices, which always count.
    """
    links, capacity = cluster.links, cluster.link_capacity
    height = _height(cluster)
    num = len(height)
    into = np.bincount(links.dst, weights=capacity, minlength=num)
    out_of = np.bincount(links.src, weights=capacity, minlength=num)
    back = _reverse_capacity(links.src, links.dst, capacity, num)
    up = height[links.dst] > height[links.src]
    down = height[links.dst] < height[links.src]
    roomy = capacity * (1.0 + 1e-9)
    safe_up = up & (links.src >= cluster.num_devices) & (into[links.src] - back <= roomy)
    safe_down = down & (links.dst >= cluster.num_devices) & (out_of[links.dst] - back <= roomy)
    return np.asarray(safe_up | safe_down)


def _height(cluster: Cluster) -> np.ndarray:
    """Hops from each vertex to the nearest device."""
    links = cluster.links
    height = np.full(cluster.num_vertices, np.iinfo(np.int64).max // 2)
    height[: cluster.num_devices] = 0
    while True:
        lower = height.copy()
        np.minimum.at(lower, links.dst, height[links.src] + 1)
        if (lower == height).all():
            return height
        height = lower


def _reverse_capacity(
    src: np.ndarray, dst: np.ndarray, capacity: np.ndarray, num: int
) -> np.ndarray:
    """Capacity of the link the other way, 0 where there is none."""
    key = src.astype(np.int64) * num + dst
    order = np.argsort(key, kind="stable")
    wanted = dst.astype(np.int64) * num + src
    at = np.searchsorted(key[order], wanted).clip(max=len(key) - 1)
    found = key[order][at] == wanted
    return np.where(found, capacity[order][at], 0.0)
