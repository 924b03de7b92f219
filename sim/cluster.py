"""Cluster: devices and switches joined by links, as a networkx graph and as frozen arrays.

A *link* here is a trunk: all parallel cables of one direction between two vertices, which ideal (adaptive) routing loads
alike; ``width`` counts the cables. Vertices 0 .. num_devices-1 are the devices; a vertex may stand for ``count``
equal switches (the spines of a pod). `Cluster.graph` draws every trunk and every switch out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sim.device import Device


class Routes(NamedTuple):
    """Routes of many pairs at once, one row a (pair, link): ``share`` of the pair's bytes crosses that link."""

    pair: np.ndarray
    link: np.ndarray
    share: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkKind:
    """A kind of link and its measured constants.

    ``efficiency`` is the share of the raw rate that payload reaches at large messages; ``latency`` seconds a hop.
    ``constants`` are those of `sim.collectives` (per-step latencies of the protocols, ...), by name.
    """

    name: str
    efficiency: float = 1.0
    latency: float = 0.0
    constants: Mapping[str, float] = field(default_factory=dict)
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Links:
    """Directed trunks, as arrays of equal length: vertices, raw bytes/s of the whole trunk, seconds, cables."""

    src: np.ndarray
    dst: np.ndarray
    bandwidth: np.ndarray
    latency: np.ndarray
    width: np.ndarray
    kind: np.ndarray


Router = Callable[[np.ndarray, np.ndarray], Routes]


@dataclass(frozen=True, kw_only=True, eq=False)
class Cluster:
    """A machine.

    ``device_kinds``/``device_kind``: the distinct devices and (num_devices,) which one each is. ``host``
    (num_devices,): the server (or tray) a device sits in; ``domain`` (num_devices,): its scale-up domain (the NVLink
    host or rack, the UB super-node, the ICI slice). ``vertex_kind`` and ``vertex_count`` describe all vertices
    (devices first). ``facts``: published power (W), switch and transceiver counts, bisection (bytes/s) ...
    """

    name: str
    family: str
    device_kinds: tuple[Device, ...]
    device_kind: np.ndarray
    host: np.ndarray
    domain: np.ndarray
    vertex_kind: tuple[str, ...]
    vertex_name: Callable[[int], str]
    vertex_count: np.ndarray
    link_kinds: tuple[LinkKind, ...]
    links: Links
    router: Router
    facts: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, object] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()

    @property
    def num_devices(self) -> int:
        """How many devices the cluster has."""
        return len(self.device_kind)
