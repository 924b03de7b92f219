"""Preset: a machine that exists, as a family and its parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sim.cluster import Cluster
from topologies.host import Host


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Preset:
    """A machine: its family (a function of ``num_devices`` and, for servers, a `Host`) and parameters of it.

    ``num_devices`` is the default, ``max_devices`` the most there are (0: no limit of its own).
    """

    family: Callable[..., Cluster]
    device: str
    num_devices: int
    max_devices: int = 0
    host: Host | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    source: str = ""


def of_host(
    family: Callable[..., Cluster],
    host: Host,
    num_devices: int,
    max_devices: int = 0,
    source: str = "",
    **parameters: object,
) -> Preset:
    """Return the preset of a family of servers."""
    return Preset(
        family=family,
        device=str(host.device),
        num_devices=num_devices,
        max_devices=max_devices,
        host=host,
        parameters=parameters,
        source=source,
    )


def of_device(
    family: Callable[..., Cluster],
    device: str,
    num_devices: int,
    max_devices: int = 0,
    source: str = "",
    **parameters: object,
) -> Preset:
    """Return the preset of a family without servers of its own."""
    return Preset(
        family=family,
        device=device,
        num_devices=num_devices,
        max_devices=max_devices,
        parameters={"device": device, **parameters},
        source=source,
    )
