"""CloudMatrix: 48 servers of 8 Ascend 910C in one UB domain of two switch tiers and seven planes, RDMA beyond.

Each device sends 392 GB/s one way over seven planes; a server has seven L1 chips of 448 GB/s up each; 112 L2 chips, 16
a plane, join them without blocking: a 28 GB/s link from every L1 chip to every L2 chip of its plane (CloudMatrix384
paper).
"""

from math import ceil

import numpy as np

from sim.cluster import Cluster
from sim.errors import TopologyError
from sim.routing import nested
from sim.units import GB
from topologies.draft import power, start
from topologies.host import Host, hosts_of
from topologies.link_kinds import link_kind
from topologies.tree import Tier, climb, exits, grow

PLANES = 7
L2_PER_PLANE = 16
PORTS = 48
LINK = 28 * GB
"""Raw bytes/s of one UB link, one way."""
TRANSCEIVERS_UB, TRANSCEIVERS_RDMA = 14, 4
"""400G modules a device: 5,376 and 1,536 of 384 (SemiAnalysis)."""


def cloudmatrix(
    num_devices: int, host: Host, *, super_node: int = 384, super_node_power: float = 0.0
) -> Cluster:
    """Return super-nodes of ``super_node`` devices, joined by their RDMA plane.

    ``super_node_power`` W of a whole one. Raises `TopologyError` for more servers than an L2 chip has ports.
    """
    if super_node > PORTS * host.devices:
        raise TopologyError(
            f"super_node={super_node} is more than {PORTS} servers of {host.devices}, the ports of an L2 switch; "
            f"choose at most {PORTS * host.devices}"
        )
    draft = start(host.device, num_devices)
    servers = hosts_of(host, num_devices)
    domain = np.arange(num_devices) // super_node
    inside = climb(grow(draft, _ub(servers, domain, host)))
    tree = grow(draft, _rdma(domain, host))
    count = int(domain[-1]) + 1
    full = count if num_devices % super_node == 0 else 0
    facts = power(draft.device, num_devices) | {
        "hosts": float(servers[-1] + 1),
        "l1_switches": float((servers[-1] + 1) * PLANES),
        "l2_switches": float(count * PLANES * L2_PER_PLANE),
        "transceivers": float(num_devices * (TRANSCEIVERS_UB + TRANSCEIVERS_RDMA)),
        "transceivers_scale_up": float(num_devices * TRANSCEIVERS_UB),
        "transceivers_scale_out": float(num_devices * TRANSCEIVERS_RDMA),
        "bisection_Bps": num_devices
        / 2
        * (host.scale_up_bandwidth if count == 1 else host.device_bandwidth),
    }
    facts["switches"] = facts["l1_switches"] + facts["l2_switches"]
    if super_node_power and full:
        facts["power_W"] = super_node_power * full
    return draft.cluster(
        name="cloudmatrix",
        family="cloudmatrix",
        host=servers,
        domain=domain,
        router=nested(domain, inside, climb(tree)),
        facts=facts,
        parameters={"num_devices": num_devices, "host": host, "super_node": super_node},
        assumptions=("the RDMA plane's switches are not published: it is taken as non-blocking",)
        if count > 1
        else (),
        top=tree.top,
        exits=exits(tree),
    )


def _ub(servers: np.ndarray, domain: np.ndarray, host: Host) -> list[Tier]:
    """Return the two tiers of the UB plane."""
    kind = link_kind(host.scale_up_kind)
    return [
        Tier(
            kind="l1",
            pattern="host{i}/l1-",
            group=servers,
            count=PLANES,
            link=kind.name,
            cables=host.scale_up_links,
            bandwidth=host.scale_up_bandwidth,
        ),
        Tier(
            kind="l2",
            pattern="super{i}/l2-",
            group=domain,
            count=PLANES * L2_PER_PLANE,
            link=kind.name,
            cables=PLANES * L2_PER_PLANE,
            bandwidth=PLANES * L2_PER_PLANE * LINK,
        ),
    ]


def _rdma(domain: np.ndarray, host: Host) -> list[Tier]:
    """Return the RDMA plane: a stage a super-node, one above several."""
    stage = Tier(
        kind="rdma",
        pattern="super{i}/rdma",
        group=domain,
        count=1,
        link=host.nic,
        cables=1,
        bandwidth=host.device_bandwidth,
    )
    if int(domain.max()) == 0:
        return [stage]
    members = np.bincount(domain)
    above = Tier(
        kind="rdma-core",
        pattern="rdma",
        group=np.zeros_like(domain),
        count=1,
        link=host.nic,
        cables=np.array([ceil(m) for m in members.tolist()]),
        bandwidth=members * host.device_bandwidth,
    )
    return [stage, above]
