"""Topologies: numbers -> Cluster; one family a file, presets of real machines in `CLUSTERS`."""

from dataclasses import fields, replace
from functools import lru_cache
from inspect import signature
from typing import Any

from sim.cluster import Cluster
from sim.errors import TopologyError, unknown
from topologies.host import Host
from topologies.presets import GPU_CLUSTERS, Preset

__all__ = ["CLUSTERS", "cluster"]

CLUSTERS: dict[str, Preset] = {**GPU_CLUSTERS}
"""Machines by name."""


def cluster(preset: str, num_devices: int | None = None, **parameters: Any) -> Cluster:
    """Return the cluster called ``preset`` with ``num_devices`` (default: the preset's own), cached by value.

    ``parameters`` override those of the family and its host. Raises `TopologyError` for a preset or parameter that
    does not exist (near names first) and for more devices than the machine has.
    """
    if preset not in CLUSTERS:
        raise TopologyError(unknown("cluster", preset, CLUSTERS))
    chosen = CLUSTERS[preset]
    n = chosen.num_devices if num_devices is None else num_devices
    if n < 1 or (chosen.max_devices and n > chosen.max_devices):
        most = chosen.max_devices or "any number"
        raise TopologyError(f"num_devices={n} does not fit {preset}; choose from 1 to {most}")
    return _build(preset, n, tuple(sorted((k, _frozen(v)) for k, v in parameters.items())))


def _frozen(value: Any) -> Any:
    """Return lists as tuples, so that parameters can be remembered."""
    return tuple(_frozen(v) for v in value) if isinstance(value, list | tuple) else value


@lru_cache(maxsize=32)
def _build(preset: str, num_devices: int, parameters: tuple[tuple[str, Any], ...]) -> Cluster:
    """Build a preset with its parameters replaced."""
    chosen = CLUSTERS[preset]
    of_host = {f.name for f in fields(Host)} if chosen.host else {"device"}
    of_family = set(signature(chosen.family).parameters) - {"num_devices", "host"}
    given = dict(parameters)
    for name in given:
        if name not in of_host | of_family:
            raise TopologyError(unknown(f"parameter of {preset}", name, of_host | of_family))
    own = {**chosen.parameters, **{k: v for k, v in given.items() if k in of_family}}
    if chosen.host is None:
        built = chosen.family(num_devices, **own)
    else:
        changes = {k: v for k, v in given.items() if k in of_host - of_family}
        built = chosen.family(num_devices, replace(chosen.host, **changes), **own)
    return replace(
        built, name=preset, parameters={"preset": preset, "num_devices": num_devices, **given}
    )
