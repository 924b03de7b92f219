"""Scale-up: what joins the devices of one domain: NVSwitches, a full mesh, the V100 hybrid cube mesh."""

from collections.abc import Callable

import numpy as np

from sim.cluster import Cluster
from sim.errors import TopologyError, unknown
from sim.routing import Router, Routes, no_routes, on, shortest_paths
from topologies.draft import Draft, power, start
from topologies.grid import Grid
from topologies.host import Host, hosts_of
from topologies.tree import Tier, climb, grow

CUBE_MESH = np.array(
    [
        [0, 1, 1, 2, 2, 0, 0, 0],
        [1, 0, 2, 1, 0, 2, 0, 0],
        [1, 2, 0, 2, 0, 0, 1, 0],
        [2, 1, 2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 1, 1, 2],
        [0, 2, 0, 0, 1, 0, 2, 1],
        [0, 0, 1, 0, 1, 2, 0, 2],
        [0, 0, 0, 1, 2, 1, 2, 0],
    ]
)
"""NVLinks between the eight V100s of a DGX-1: six a device. NVIDIA DGX-1 With Tesla V100 white paper, figure 4."""


def switched(draft: Draft, domain: np.ndarray, host: Host) -> Router:
    """Join each domain by its switches: every device has the same number of cables to each."""
    pattern = "rack{i}/nvswitch" if host.domain_size > host.devices else "host{i}/nvswitch"
    tier = Tier(
        kind="nvswitch",
        pattern=pattern,
        group=domain,
        count=host.scale_up_switches,
        link=host.scale_up_kind,
        cables=host.scale_up_links,
        bandwidth=host.scale_up_bandwidth,
    )
    return climb(grow(draft, [tier]))


def full_mesh(draft: Draft, domain: np.ndarray, host: Host) -> Router:
    """Join every two devices of a domain by one link."""
    size = host.domain_size
    return direct(draft, domain, 1 - np.eye(size, dtype=np.int64), host)


def cube_mesh(draft: Draft, domain: np.ndarray, host: Host) -> Router:
    """Join eight devices as a DGX-1 does."""
    if host.domain_size != len(CUBE_MESH):
        raise TopologyError(
            f"a cube mesh joins 8 devices, not {host.domain_size}; choose devices=8"
        )
    return direct(draft, domain, CUBE_MESH, host)


def host_torus(draft: Draft, domain: np.ndarray, host: Host) -> Router:
    """Join the devices of a server as a 4 x 4 torus of chips, one or two devices (cores) a chip."""
    if host.domain_size not in (16, 32):
        raise TopologyError(
            f"a 4x4 torus joins 16 chips of 1 or 2 cores, not {host.domain_size} devices"
        )
    sides = (4, 4, host.domain_size // 16)
    grid = Grid(sides, (True, True, False), np.zeros((3, 3), np.int64))
    pattern = np.zeros((host.domain_size, host.domain_size), np.int64)
    for ahead in grid.neighbour:
        there = np.flatnonzero(ahead >= 0)
        pattern[there, ahead[there]] = pattern[ahead[there], there] = 1
    return direct(draft, domain, pattern, host)


def direct(draft: Draft, domain: np.ndarray, pattern: np.ndarray, host: Host) -> Router:
    """Join the devices of each domain by ``pattern`` (size, size) cables and route inside by shortest paths."""
    size, n = len(pattern), draft.num_devices
    cable = host.scale_up_bandwidth / host.scale_up_links
    tails, heads = np.nonzero(pattern)
    first = np.arange(int(domain.max()) + 1)[:, None] * size
    src, dst = (first + tails).ravel(), (first + heads).ravel()
    width = np.broadcast_to(pattern[tails, heads], (len(first), len(tails))).ravel()
    there = (src < n) & (dst < n)
    links = np.full(len(src), -1)
    links[there] = draft.links(
        src[there],
        dst[there],
        host.scale_up_kind,
        cable * width[there],
        width=width[there],
    )
    table = links.reshape(len(first), len(tails))
    local: dict[int, tuple[Routes, np.ndarray, np.ndarray]] = {}
    for used in {size, n - int(domain[-1]) * size}:
        local[used] = _local(pattern, used)

    def router(a: np.ndarray, b: np.ndarray) -> Routes:
        filled = np.minimum(size, n - domain[a] * size)
        parts = []
        for used, (routes, starts, counts) in local.items():
            pairs = np.flatnonzero(filled == used)
            if not len(pairs):
                continue
            key = (a[pairs] % size) * size + b[pairs] % size
            rows = np.repeat(np.arange(len(pairs)), counts[key])
            inside = np.arange(len(rows)) - np.repeat(
                np.cumsum(counts[key]) - counts[key], counts[key]
            )
            row = starts[key][rows] + inside
            link = table[domain[a[pairs]][rows], routes.link[row]]
            parts.append(on(pairs, Routes(rows, link, routes.share[row])))
        return parts[0] if len(parts) == 1 else _joined(parts)

    return router


def _joined(parts: list[Routes]) -> Routes:
    """Concatenate routes, of which there may be none."""
    if not parts:
        return no_routes()
    return Routes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _local(pattern: np.ndarray, used: int) -> tuple[Routes, np.ndarray, np.ndarray]:
    """Return the routes of all (size x size) local pairs of a domain filled with ``used`` devices, as rows a pair."""
    size = len(pattern)
    tails, heads = np.nonzero(pattern)
    width = np.where((tails < used) & (heads < used), pattern[tails, heads], 0)
    paths = shortest_paths(
        tails, heads, np.zeros(len(tails)), width, lambda v: f"device {v} of the host", size
    )
    a, b = np.divmod(np.arange(size * size), size)
    pairs = np.flatnonzero((a < used) & (b < used) & (a != b))
    routes = on(pairs, paths(a[pairs], b[pairs])) if len(pairs) else no_routes()
    counts = np.bincount(routes.pair, minlength=size * size)
    return routes, np.cumsum(counts) - counts, counts


SCALE_UPS: dict[str, Callable[[Draft, np.ndarray, Host], Router]] = {
    "nvswitch": switched,
    "full_mesh": full_mesh,
    "cube_mesh": cube_mesh,
    "torus": host_torus,
}


def scale_up(draft: Draft, host: Host) -> tuple[np.ndarray, Router]:
    """Join the devices of every domain; return the domain of each device and the router inside."""
    if host.scale_up not in SCALE_UPS:
        raise TopologyError(unknown("scale_up", host.scale_up, SCALE_UPS))
    domain = np.arange(draft.num_devices) // host.domain_size
    return domain, SCALE_UPS[host.scale_up](draft, domain, host)


def domain_bisection(host: Host, num_devices: int) -> float:
    """Return bytes/s one way between the halves of one domain of ``num_devices``, in closed form.

    Behind switches: what half of the devices can send. In a mesh: the cables that cross the middle.
    """
    half = num_devices // 2
    if host.scale_up == "nvswitch":
        return half * host.scale_up_bandwidth
    cable = host.scale_up_bandwidth / host.scale_up_links
    if host.scale_up == "cube_mesh":
        return float(CUBE_MESH[:half, half:num_devices].sum()) * cable
    if host.scale_up == "torus":
        return 8 * cable * (num_devices / 16)
    return half * (num_devices - half) * cable


def single_host(num_devices: int, host: Host) -> Cluster:
    """Return one server (or rack) alone, its adapters shown but joined to nothing.

    Raises `TopologyError` for more devices than one domain has.
    """
    if num_devices > host.domain_size:
        raise TopologyError(
            f"num_devices={num_devices} is more than the {host.domain_size} devices of one {host.device} domain; "
            "choose a cluster with a network"
        )
    draft = start(host.device, num_devices)
    domain, router = scale_up(draft, host)
    servers = hosts_of(host, num_devices)
    nics = draft.vertices("nic", "nic{i}", np.ones(num_devices, np.int64))
    draft.duplex(np.arange(num_devices), nics, host.nic, host.device_bandwidth)
    facts = power(draft.device, num_devices) | {
        "hosts": float(servers[-1] + 1),
        "bisection_Bps": domain_bisection(host, num_devices),
    }
    if host.scale_up_switches:
        facts["switches"] = float(host.scale_up_switches)
    return draft.cluster(
        name="host",
        family="single_host",
        host=servers,
        domain=domain,
        router=router,
        facts=facts,
        parameters={"num_devices": num_devices, "host": host},
    )
