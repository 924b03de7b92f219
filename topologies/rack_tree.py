"""Rack tree: every adapter of a rack on one switch, racks in pods, pods over a thin top (RoCE and cloud builds).

Meta's 24,576-device RoCE cluster: 2 servers a rack, 192 racks (3,072 devices) a pod at full bisection, pods at 1:7.
"""

import numpy as np

from sim.cluster import Cluster
from sim.errors import TopologyError
from sim.routing import nested, via
from topologies.draft import power, start
from topologies.fat_tree import rails, shared_adapters
from topologies.host import Host, hosts_of
from topologies.link_kinds import link_kind
from topologies.scale_up import domain_bisection, scale_up
from topologies.tree import Tier, climb, exits, grow


def rack_tree(
    num_devices: int,
    host: Host,
    *,
    hosts_per_rack: int = 2,
    racks_per_pod: int = 192,
    rack_oversubscription: float = 1.0,
    oversubscription: float = 1.0,
    pxn: bool = False,
) -> Cluster:
    """Return servers in racks of one switch each, racks in pods, pods under one top stage.

    ``rack_oversubscription`` bytes/s down over up at the rack switch, ``oversubscription`` above the pods. The stages
    above the racks stand for switches whose number is not published. Raises `TopologyError` for sizes below 1 and
    ratios not above 0.
    """
    if hosts_per_rack < 1 or racks_per_pod < 1:
        raise TopologyError(
            f"hosts_per_rack={hosts_per_rack} and racks_per_pod={racks_per_pod} must be at least 1"
        )
    if rack_oversubscription <= 0 or oversubscription <= 0:
        raise TopologyError(
            f"oversubscription={oversubscription} and rack_oversubscription={rack_oversubscription} must be above 0"
        )
    draft = start(host.device, num_devices)
    servers = hosts_of(host, num_devices)
    domain, inside = scale_up(draft, host)
    tiers = _tiers(
        servers, host, hosts_per_rack, racks_per_pod, rack_oversubscription, oversubscription
    )
    tree = grow(draft, [*shared_adapters(draft, host), *tiers])
    outside = climb(tree)
    router = (
        via(rails(domain, host), domain, inside, outside)
        if pxn
        else nested(domain, inside, outside)
    )
    facts = power(draft.device, num_devices) | {
        "hosts": float(servers[-1] + 1),
        "rack_switches": float(servers[-1] // hosts_per_rack + 1),
    }
    facts["bisection_Bps"] = _bisection(num_devices, host, tiers)
    return draft.cluster(
        name="rack-tree",
        family="rack_tree",
        host=servers,
        domain=domain,
        router=router,
        facts=facts,
        parameters={
            "num_devices": num_devices,
            "host": host,
            "oversubscription": oversubscription,
        },
        top=tree.top,
        exits=exits(tree),
    )


def _bisection(num_devices: int, host: Host, tiers: list[Tier]) -> float:
    """Return bytes/s one way between halves: the adapters of one, or half of what a tier has up."""
    if num_devices <= host.domain_size:
        return domain_bisection(host, num_devices)
    half = num_devices / 2 * host.device_bandwidth
    return float(min([half, *(np.sum(tier.bandwidth) / 2 for tier in tiers[1:])]))


def _tiers(
    servers: np.ndarray,
    host: Host,
    hosts_per_rack: int,
    racks_per_pod: int,
    rack_oversubscription: float,
    oversubscription: float,
) -> list[Tier]:
    """Return rack switches, the pods' stage, and the top stage, as many as are needed."""
    ports = max(1, host.nics // host.devices)
    rack = servers // hosts_per_rack
    pod = rack // racks_per_pod
    tiers = [
        Tier(
            kind="rack",
            pattern="rack{i}/tor",
            group=rack,
            count=1,
            link=host.nic,
            cables=ports,
            bandwidth=host.nic_bandwidth * ports,
            latency=link_kind(host.nic).latency,
        )
    ]
    below = np.bincount(rack) * host.device_bandwidth
    steps = [
        ("pod", "pod{i}/stage", pod, rack, rack_oversubscription),
        ("top", "top", np.zeros_like(pod), pod, oversubscription),
    ]
    for kind, pattern, group, under, ratio in steps:
        if int(under.max()) == 0:
            break
        rate = below / ratio
        cables = np.maximum(1, np.rint(rate / host.nic_bandwidth)).astype(np.int64)
        tiers.append(
            Tier(
                kind=kind,
                pattern=pattern,
                group=group,
                count=1,
                link=host.nic,
                cables=cables,
                bandwidth=rate,
            )
        )
        below = np.bincount(group) * host.device_bandwidth
    return tiers
