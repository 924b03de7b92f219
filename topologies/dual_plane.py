"""Dual plane: every adapter's two ports go to two switches of two separate trees (Alibaba HPN 7.0).

A segment of 128 servers has 16 leaves: one a rail and plane, 128 ports of 200 Gb/s down and 64 of 400 Gb/s up. A pod
has 15 segments under 60 spines a plane, pods meet in a core at 15:1 (HPN paper; SimAI's HPN template).
"""

from math import ceil

import numpy as np

from sim.cluster import Cluster
from sim.errors import TopologyError
from sim.routing import nested
from topologies.draft import Draft, power, start
from topologies.host import Host, hosts_of
from topologies.link_kinds import link_kind
from topologies.scale_up import domain_bisection, scale_up
from topologies.tree import Tier, Tree, climb, grow, planes


def dual_plane(
    num_devices: int,
    host: Host,
    *,
    num_planes: int = 2,
    hosts_per_segment: int = 128,
    segments_per_pod: int = 15,
    uplink_bandwidth: float,
    leaf_uplinks: int = 64,
    spine_ports: int = 128,
    oversubscription: float = 15.0,
) -> Cluster:
    """Return servers whose adapters have a port on each of ``num_planes`` trees; traffic spreads over the planes.

    ``uplink_bandwidth`` bytes/s of a leaf's port up, ``oversubscription`` bytes/s down over up above the pods. Raises
    `TopologyError` for sizes below 1.
    """
    if min(num_planes, hosts_per_segment, segments_per_pod) < 1 or oversubscription <= 0:
        raise TopologyError(
            f"num_planes={num_planes}, hosts_per_segment={hosts_per_segment}, segments_per_pod={segments_per_pod} "
            f"must be at least 1 and oversubscription={oversubscription} above 0"
        )
    draft = start(host.device, num_devices)
    servers = hosts_of(host, num_devices)
    domain, inside = scale_up(draft, host)
    segment = servers // hosts_per_segment
    leaf = segment * host.devices + np.arange(num_devices) % host.devices
    pod = segment // segments_per_pod
    share = hosts_per_segment * host.device_bandwidth / num_planes
    up = min(leaf_uplinks * uplink_bandwidth, share)
    spines = ceil(
        min(segments_per_pod, int(segment[-1]) + 1) * host.devices * leaf_uplinks / spine_ports
    )
    trees = [
        _plane(
            draft, host, plane, num_planes, leaf, pod, (leaf_uplinks, up, spines, oversubscription)
        )
        for plane in range(num_planes)
    ]
    leaves = len(np.unique(leaf)) * num_planes
    pods = int(pod[-1]) + 1
    half = num_devices / 2 * host.device_bandwidth
    facts = power(draft.device, num_devices) | {
        "hosts": float(servers[-1] + 1),
        "leaf_switches": float(leaves),
        "spine_switches": float(spines * pods * num_planes),
        "switches": float(leaves + spines * pods * num_planes),
        "bisection_Bps": domain_bisection(host, num_devices)
        if num_devices <= host.domain_size
        else half / (oversubscription if pods > 1 else 1.0),
    }
    return draft.cluster(
        name="dual-plane",
        family="dual_plane",
        host=servers,
        domain=domain,
        router=nested(domain, inside, planes([climb(tree) for tree in trees])),
        facts=facts,
        parameters={"num_devices": num_devices, "host": host, "num_planes": num_planes},
    )


def _plane(
    draft: Draft,
    host: Host,
    plane: int,
    num_planes: int,
    leaf: np.ndarray,
    pod: np.ndarray,
    sizes: tuple[int, float, int, float],
) -> Tree:
    """Add one plane: leaves, the spines of each pod, a core above several pods."""
    uplinks, up, spines, ratio = sizes
    dense = np.unique(leaf, return_inverse=True)[1]
    kind = link_kind(host.nic)
    tiers = [
        Tier(
            kind="leaf",
            pattern=f"plane{plane}/leaf{{i}}",
            group=dense,
            count=1,
            link=host.nic,
            cables=1,
            bandwidth=host.device_bandwidth / num_planes,
            latency=kind.latency,
        ),
        Tier(
            kind="spine",
            pattern=f"plane{plane}/pod{{i}}/spine",
            group=pod,
            count=spines,
            link=host.nic,
            cables=uplinks,
            bandwidth=up,
        ),
    ]
    if int(pod.max()) > 0:
        below = np.bincount(pod) * host.device_bandwidth / num_planes / ratio
        tiers.append(
            Tier(
                kind="core",
                pattern=f"plane{plane}/core",
                group=np.zeros_like(pod),
                count=1,
                link=host.nic,
                cables=spines,
                bandwidth=below,
            )
        )
    return grow(draft, tiers)
