"""Fat tree: servers on a rail-optimised tree of equal switches, by radix; two tiers, three, or four.

Adapter i of every server of a unit goes to leaf i of the unit, half of whose ports look down. Pods of radix/2 leaves
have spines of their own when two tiers are full (radix^2/2 devices); cores join up to radix^3/4. NVIDIA DGX SuperPOD
reference architectures: at radix 64, 512 devices need 16 leaves and 8 spines; 16,384 need 512, 512 and 256.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from sim.cluster import Cluster
from sim.errors import TopologyError
from sim.routing import nested, via
from topologies.draft import Draft, power, start
from topologies.host import Host, hosts_of
from topologies.link_kinds import link_kind
from topologies.scale_up import domain_bisection, scale_up
from topologies.tree import Tier, climb, exits, grow

Ratio = float | Sequence[float]
NAMES = ("spine", "core", "super")
"""Kinds of switches above the leaves."""


def fat_tree(
    num_devices: int,
    host: Host,
    *,
    radix: int = 64,
    oversubscription: Ratio = 1.0,
    hosts_per_unit: int = 0,
    pxn: bool = False,
) -> Cluster:
    """Return servers on a rail-optimised fat tree.

    ``oversubscription``: bytes/s down over up at the highest tier, or one number a tier from the leaves up.
    ``hosts_per_unit``: servers on one set of leaves (0: radix/2). ``pxn``: cross-rail traffic changes rail inside the
    sending host (NCCL's PXN) instead of in the spines. Raises `TopologyError` for an odd radix or a ratio below 0.
    """
    if radix < 2 or radix % 2:
        raise TopologyError(f"radix={radix} must be an even number of ports; choose 40, 64 or 144")
    draft = start(host.device, num_devices)
    servers = hosts_of(host, num_devices)
    domain, inside = scale_up(draft, host)
    layout = _layout(num_devices, host, radix, hosts_per_unit)
    tiers, counts = _tiers(layout, host, radix, oversubscription)
    tree = grow(draft, [*shared_adapters(draft, host), *tiers])
    outside = climb(tree)
    router = nested(domain, inside, outside)
    if pxn:
        router = via(rails(domain, host), domain, inside, outside)
    facts = power(draft.device, num_devices) | counts
    facts["hosts"] = float(servers[-1] + 1)
    facts["bisection_Bps"] = _bisection(num_devices, host, tiers)
    assumptions = []
    if len(tiers) > 3:
        assumptions.append(
            f"{num_devices} devices are more than radix^3/4 = {radix**3 // 4}: a fourth tier of switches is assumed"
        )
    return draft.cluster(
        name="fat-tree",
        family="fat_tree",
        host=servers,
        domain=domain,
        router=router,
        facts=facts,
        parameters={
            "num_devices": num_devices,
            "host": host,
            "radix": radix,
            "oversubscription": oversubscription,
        },
        assumptions=assumptions,
        top=tree.top,
        exits=exits(tree),
    )


def rails(domain: np.ndarray, host: Host) -> np.ndarray:
    """Return the device of each (domain, rail), -1 where there is none; a rail is a device's place in its server.

    Domains of several servers have a rail a device.
    """
    table = np.full((int(domain.max()) + 1, host.domain_size), -1)
    devices = np.arange(len(domain))
    table[domain, devices % host.domain_size] = devices
    return table


def shared_adapters(draft: Draft, host: Host) -> list[Tier]:
    """Return the tier of adapters where several devices share one, else nothing.

    Raises `TopologyError` where devices and adapters of a host do not divide.
    """
    if host.nics < 1 or (host.devices % host.nics and host.nics % host.devices):
        raise TopologyError(
            f"nics={host.nics} and devices={host.devices} of a host do not divide; make one a multiple of the other"
        )
    if host.nics >= host.devices:
        return []
    return [
        Tier(
            kind="nic",
            pattern="nic{i}",
            group=np.arange(draft.num_devices) // (host.devices // host.nics),
            count=1,
            link=host.pcie,
            cables=1,
            bandwidth=host.pcie_bandwidth,
            latency=0.0,
        )
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Leaf and adapter of each device; leaves are numbered unit by unit, ``rails`` leaves a unit."""

    leaf: np.ndarray
    adapter: np.ndarray
    rails: int

    def pods(self, size: int) -> np.ndarray:
        """Return the pod of each device where pods hold ``size`` leaves: whole rails, as far as they fit.

        Leaves of one rail share spines, so traffic that keeps its rail stays in its pod.
        """
        unit, rail = self.leaf // self.rails, self.leaf % self.rails
        units = int(unit.max()) + 1
        if units <= size:
            return np.asarray(rail // (size // units))
        return np.asarray(rail * ceil(units / size) + unit // size)


def _layout(num_devices: int, host: Host, radix: int, hosts_per_unit: int) -> _Layout:
    """Give each adapter its leaf: its rail's in its unit; few servers share leaves among rails."""
    down = radix // 2
    devices = np.arange(num_devices)
    adapter = devices // max(1, host.devices // host.nics)
    ports = max(1, host.nics // host.devices)
    rails_per_host = min(host.nics, host.devices)
    server = devices // host.devices
    unit_hosts = hosts_per_unit or down // ports
    if unit_hosts * ports > down:
        raise TopologyError(
            f"hosts_per_unit={unit_hosts} with {ports} ports a device is more than the {down} down ports of a leaf; "
            f"choose at most {down // ports}"
        )
    num_hosts = int(server[-1]) + 1
    together = max(1, min(rails_per_host, down // (ports * min(num_hosts, unit_hosts))))
    leaves_per_unit = ceil(rails_per_host / together)
    leaf = server // unit_hosts * leaves_per_unit + adapter % rails_per_host // together
    return _Layout(leaf, adapter, leaves_per_unit)


def _tiers(
    layout: _Layout, host: Host, radix: int, oversubscription: Ratio
) -> tuple[list[Tier], dict[str, float]]:
    """Return the tiers above the adapters, and how many switches and cables they are."""
    leaf = np.unique(layout.leaf, return_inverse=True)[1]
    leaves = int(leaf.max()) + 1
    ports = max(1, host.nics // host.devices)
    nic = host.nic_bandwidth * ports
    first_hop = link_kind(host.nic).latency
    tiers = [_tier("leaf", "leaf{i}", leaf, 1, host, ports, nic, first_hop)]
    counts = {"leaf_switches": float(leaves)}
    if leaves == 1:
        return tiers, counts | {"switches": 1.0}
    groups: list[np.ndarray] = []
    pods = leaf
    while int(pods.max()) >= radix:
        pods = layout.pods(radix // 2) if not groups else pods // (radix // 2)
        groups.append(pods)
    groups.append(np.zeros_like(leaf))
    if len(groups) > len(NAMES):
        raise TopologyError(
            f"num_devices={len(leaf)} needs {len(groups) + 1} tiers of switches of radix={radix}; "
            "choose fewer devices or a larger radix"
        )
    ratios = _ratios(oversubscription, len(groups))
    below = np.bincount(leaf[np.unique(layout.adapter, return_index=True)[1]]) * ports
    under = leaf
    for level, (group, ratio) in enumerate(zip(groups, ratios, strict=True)):
        cables = np.maximum(1, np.rint(below / ratio)).astype(np.int64)
        rate = below / ratio * host.nic_bandwidth
        first = np.unique(under, return_index=True)[1]
        parent = group[first]
        last = level == len(groups) - 1
        through = np.bincount(parent, cables)
        switches = np.ceil(through / (radix if last else radix / 2)).astype(np.int64)
        name = NAMES[level]
        pattern = name if last else "pod{i}/" + name
        tiers.append(_tier(name, pattern, group, switches, host, cables, rate))
        counts[f"{name}_switches"] = float(switches.sum())
        counts[f"{name}_cables"] = float(cables.sum())
        below, under = np.bincount(parent, below / ratio), group
    counts["switches"] = sum(v for k, v in counts.items() if k.endswith("_switches"))
    return tiers, counts


def _ratios(oversubscription: Ratio, tiers: int) -> list[float]:
    """Return the ratio of each tier, from the leaves up; a single number is that of the highest tier."""
    if isinstance(oversubscription, int | float):
        ratios = [1.0] * (tiers - 1) + [float(oversubscription)]
    else:
        ratios = [float(ratio) for ratio in oversubscription]
    if len(ratios) != tiers:
        raise TopologyError(
            f"oversubscription={oversubscription} has {len(ratios)} ratios but {tiers} tiers have links up; "
            "give one number a tier, or one number for the highest"
        )
    if min(ratios) <= 0:
        raise TopologyError(
            f"oversubscription={oversubscription} must be above 0; 1 is non-blocking"
        )
    return ratios


def _tier(
    kind: str,
    pattern: str,
    group: np.ndarray,
    count: int | np.ndarray,
    host: Host,
    cables: int | np.ndarray,
    bandwidth: float | np.ndarray,
    latency: float | None = None,
) -> Tier:
    """Return a tier of the host's network."""
    return Tier(
        kind=kind,
        pattern=pattern,
        group=group,
        count=count,
        link=host.nic,
        cables=cables,
        bandwidth=bandwidth,
        latency=latency,
    )


def _bisection(num_devices: int, host: Host, tiers: Sequence[Tier]) -> float:
    """Return bytes/s one way between equal halves: half the adapters over every ratio, or one domain's own."""
    if num_devices <= host.domain_size:
        return domain_bisection(host, num_devices)
    half = num_devices / 2 * host.device_bandwidth
    if len(tiers) == 1:
        return half
    top = np.asarray(tiers[-1].bandwidth)
    return float(min(half, top.sum() / 2))
