"""Topologies: numbers -> Cluster; one family a file, real machines in `CLUSTERS`.

>>> cluster("h100-fat-tree", 64).num_devices
64
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from inspect import signature
from typing import Any

import numpy as np

from sim.cluster import Cluster
from sim.errors import TopologyError, unknown
from sim.overlay import degrade, ecmp
from sim.units import Gbit, km
from topologies.fat_tree import fat_tree
from topologies.gpu_clusters import GPU_CLUSTERS
from topologies.host import Host
from topologies.multi_site import PerPair, multi_site
from topologies.nvl72 import nvl72
from topologies.other_clusters import OTHER_CLUSTERS
from topologies.presets import Preset
from topologies.torus import torus
from topologies.virgo import virgo

__all__ = ["CLUSTERS", "cluster"]

OVERLAYS = ("degrade", "routing", "seed", "flows", "used_per_domain")
"""Parameters every preset takes: see `cluster`."""
INNER: dict[Callable[..., Cluster], Callable[..., Cluster]] = {nvl72: fat_tree, virgo: torus}
"""Families that hand the parameters they do not know to another."""
ROUTINGS = ("adaptive", "ecmp", "rail", "dimension")


def cluster(preset: str, num_devices: int | None = None, **parameters: Any) -> Cluster:
    """Return the cluster called ``preset`` with ``num_devices`` (default: the preset's own), cached by value.

    ``parameters`` override those of the family and its host, and of every preset: ``routing`` (``adaptive``: ideal
    spreading; ``ecmp``: hashed, with ``seed`` and ``flows`` a pair; ``rail``: rails changed inside hosts;
    ``dimension``: axis by axis, tori), ``degrade`` (lines of `sim.overlay`), ``used_per_domain`` (64 of 72). Raises
    `TopologyError` for a preset or parameter that does not exist (near names first) and more devices than there are.
    """
    if preset not in CLUSTERS:
        raise TopologyError(unknown("cluster", preset, CLUSTERS))
    chosen = CLUSTERS[preset]
    n = chosen.num_devices if num_devices is None else num_devices
    if n < 1 or (chosen.max_devices and n > chosen.max_devices):
        most = f"from 1 to {chosen.max_devices}" if chosen.max_devices else "at least 1"
        raise TopologyError(f"num_devices={n} does not fit {preset}; choose {most}")
    return _build(preset, n, tuple(sorted((k, _frozen(v)) for k, v in parameters.items())))


def _frozen(value: Any) -> Any:
    """Return lists as tuples, so that parameters can be remembered."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list | tuple) else value


@lru_cache(maxsize=32)
def _build(preset: str, num_devices: int, parameters: tuple[tuple[str, Any], ...]) -> Cluster:
    """Build a preset with its parameters replaced, then lay the overlays over it."""
    chosen = CLUSTERS[preset]
    of_host = {f.name for f in fields(Host)} if chosen.host else set()
    of_family = set(chosen.parameters) | set(signature(chosen.family).parameters)
    if chosen.family in INNER:
        of_family |= set(signature(INNER[chosen.family]).parameters)
    of_family -= {"num_devices", "host", "parameters"}
    given = dict(parameters)
    for name in given:
        if name not in of_host | of_family | set(OVERLAYS):
            known = of_host | of_family | set(OVERLAYS)
            raise TopologyError(unknown(f"parameter of {preset}", name, known))
    over = {name: given[name] for name in OVERLAYS if name in given}
    own = {**chosen.parameters, **{k: v for k, v in given.items() if k in of_family}}
    own |= _routed(preset, over.get("routing", "adaptive"), of_family, "routing" in over)
    used = _used(chosen, num_devices, over.get("used_per_domain"))
    size = num_devices if used is None else int(used[-1]) + 1
    if chosen.host is None:
        built = chosen.family(size, **own)
    else:
        changes = {k: v for k, v in given.items() if k in of_host and k not in of_family}
        built = chosen.family(size, replace(chosen.host, **changes), **own)
    built = replace(
        built, name=preset, parameters={"preset": preset, "num_devices": num_devices, **given}
    )
    return _overlaid(built if used is None else built.use(used), over)


def _routed(preset: str, routing: str, of_family: set[str], named: bool) -> dict[str, object]:
    """Return the family's parameters of a way of routing; raises `TopologyError` where it has no such way."""
    if routing not in ROUTINGS:
        raise TopologyError(unknown("routing", routing, ROUTINGS))
    if routing == "rail":
        if "pxn" not in of_family:
            raise TopologyError(
                f"routing='rail' needs servers on rails; {preset} has none: leave it out"
            )
        return {"pxn": True}
    tori = "max_slice" in of_family
    if routing == "dimension" and not tori:
        raise TopologyError(f"routing='dimension' needs a torus; {preset} is none: choose adaptive")
    return {"order": routing} if tori and named and routing != "ecmp" else {}


def _used(chosen: Preset, num_devices: int, used: int | None) -> np.ndarray | None:
    """Return the devices in use where only ``used`` of every domain are."""
    if used is None:
        return None
    size = chosen.host.domain_size if chosen.host else 0
    if not 0 < used <= size:
        raise TopologyError(
            f"used_per_domain={used} must be from 1 to the devices of a domain, {size or 'which this machine lacks'}"
        )
    rank = np.arange(num_devices)
    return rank // used * size + rank % used


def _overlaid(built: Cluster, over: dict[str, Any]) -> Cluster:
    """Hash the routing, then degrade links, where asked for."""
    if over.get("routing") == "ecmp":
        built = ecmp(built, seed=int(over.get("seed", 0)), flows=int(over.get("flows", 1)))
    elif "seed" in over or "flows" in over:
        raise TopologyError(
            "seed and flows have no effect without routing='ecmp'; add it or leave them out"
        )
    return degrade(built, over["degrade"]) if over.get("degrade") else built


def joined_sites(
    num_devices: int,
    *,
    device: str = "",
    site: str = "h100-fat-tree",
    num_sites: int = 2,
    site_devices: Sequence[int] = (),
    site_bandwidth: PerPair,
    distance_km: PerPair,
) -> Cluster:
    """Return ``num_sites`` clusters of preset ``site`` joined by fibre, equal in size unless ``site_devices`` says.

    ``site_bandwidth`` raw bytes/s and ``distance_km`` between two sites, one number or rows [from][to].
    """
    each, more = divmod(num_devices, max(1, num_sites))
    counts = tuple(site_devices) or tuple(each + (i < more) for i in range(num_sites))
    if sum(counts) != num_devices:
        raise TopologyError(
            f"num_devices={num_devices} is not split by site_devices={counts} into {len(counts)} sites; "
            "make them add up"
        )
    changes = {"device": device} if device else {}
    return multi_site(
        [cluster(site, n, **changes) for n in counts],
        bandwidth=site_bandwidth,
        distance=(np.asarray(distance_km, np.float64) * km).tolist(),
    )


CLUSTERS: dict[str, Preset] = {
    **GPU_CLUSTERS,
    **OTHER_CLUSTERS,
    "two-datacenters": Preset(
        family=joined_sites,
        device="h100-sxm",
        num_devices=2048,
        parameters={"site_bandwidth": 16 * 800 * Gbit, "distance_km": 40.0},
        source="an example: 16 wavelengths of 800 Gb/s over 40 km",
    ),
}
"""Machines by name."""
