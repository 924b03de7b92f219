"""Draft: vertices and links of a cluster while a family lays them out, block by block."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.cluster import Cluster, LinkKind, Links
from sim.device import Device
from sim.errors import TopologyError
from sim.routing import Router, Routes
from topologies.announced import ANNOUNCED
from topologies.devices import device as device_named
from topologies.link_kinds import link_kind

_PREFIX = {"gpu": "gpu", "tpu": "tpu", "npu": "npu"}


def resolve(device: str | Device) -> Device:
    """Return a device given by name or by value."""
    if isinstance(device, Device):
        return device
    return ANNOUNCED[device] if device in ANNOUNCED else device_named(device)


@dataclass(slots=True, eq=False)
class Draft:
    """Vertices in blocks of one kind (devices first), links in blocks of one kind."""

    device: Device
    num_devices: int
    kinds: list[str] = field(default_factory=list)
    counts: list[np.ndarray] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)
    size: int = 0
    link_kinds: list[LinkKind] = field(default_factory=list)
    rows: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    num_links: int = 0

    def vertices(self, kind: str, pattern: str, count: np.ndarray | Sequence[int]) -> np.ndarray:
        """Add a vertex an entry of ``count`` (switches each stands for), named ``pattern`` with ``{i}``; return ids."""
        counts = np.asarray(count, dtype=np.int64)
        first = self.size
        self.kinds.append(kind)
        self.counts.append(counts)
        self.starts.append(first)
        self.patterns.append(pattern)
        self.size += len(counts)
        return np.arange(first, self.size)

    def links(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        kind: str,
        bandwidth: np.ndarray | float,
        *,
        width: np.ndarray | int = 1,
        latency: np.ndarray | float | None = None,
    ) -> np.ndarray:
        """Add one direction: trunks of raw ``bandwidth`` bytes/s and ``width`` cables; return link ids."""
        known = link_kind(kind)
        if known not in self.link_kinds:
            self.link_kinds.append(known)
        n = len(src)
        seconds = known.latency if latency is None else latency
        self.rows.append(
            (
                np.asarray(src, np.int64),
                np.asarray(dst, np.int64),
                np.broadcast_to(np.asarray(bandwidth, np.float64), n),
                np.broadcast_to(np.asarray(seconds, np.float64), n),
                np.broadcast_to(np.asarray(width, np.int64), n),
                np.full(n, self.link_kinds.index(known), np.int64),
            )
        )
        self.num_links += n
        return np.arange(self.num_links - n, self.num_links)

    def duplex(
        self,
        lower: np.ndarray,
        upper: np.ndarray,
        kind: str,
        bandwidth: np.ndarray | float,
        *,
        width: np.ndarray | int = 1,
        latency: np.ndarray | float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Add both directions between ``lower`` and ``upper``; return the link ids up and down."""
        up = self.links(lower, upper, kind, bandwidth, width=width, latency=latency)
        down = self.links(upper, lower, kind, bandwidth, width=width, latency=latency)
        return up, down

    def cluster(
        self,
        *,
        name: str,
        family: str,
        host: np.ndarray,
        domain: np.ndarray,
        router: Router,
        facts: Mapping[str, float],
        parameters: Mapping[str, object],
        assumptions: Sequence[str] = (),
        coordinates: np.ndarray | None = None,
        shape: tuple[int, ...] = (),
        wrap: tuple[bool, ...] = (),
        top: int = -1,
        exits: Callable[[np.ndarray], tuple[Routes, Routes]] | None = None,
    ) -> Cluster:
        """Freeze the draft into a `Cluster`."""
        columns = [np.concatenate(column) for column in zip(*self.rows, strict=True)]
        kinds: list[str] = []
        for kind, counts in zip(self.kinds, self.counts, strict=True):
            kinds.extend([kind] * len(counts))
        return Cluster(
            name=name,
            family=family,
            device_kinds=(self.device,),
            device_kind=np.zeros(self.num_devices, np.int64),
            host=host,
            domain=domain,
            vertex_kind=tuple(kinds),
            vertex_name=_Names(tuple(self.starts), tuple(self.patterns)),
            vertex_count=np.concatenate(self.counts),
            link_kinds=tuple(self.link_kinds),
            links=Links(
                src=columns[0],
                dst=columns[1],
                bandwidth=columns[2],
                latency=columns[3],
                width=columns[4],
                kind=columns[5],
            ),
            router=router,
            facts=dict(facts),
            parameters=dict(parameters),
            assumptions=tuple(assumptions),
            coordinates=coordinates,
            shape=shape,
            wrap=wrap,
            top=top,
            exits=exits,
        )


@dataclass(frozen=True, slots=True)
class _Names:
    """Vertex names, by block: the block's pattern with the place in the block."""

    starts: tuple[int, ...]
    patterns: tuple[str, ...]

    def __call__(self, vertex: int) -> str:
        block = bisect_right(self.starts, vertex) - 1
        return self.patterns[block].format(i=vertex - self.starts[block])


def start(device: str | Device, num_devices: int) -> Draft:
    """Return a draft with its devices, named by their kind: ``gpu0``, ``tpu0``, ``npu0``.

    Raises `TopologyError` for a number below 1.
    """
    if num_devices < 1:
        raise TopologyError(f"num_devices={num_devices} must be at least 1")
    known = resolve(device)
    draft = Draft(known, num_devices)
    prefix = _PREFIX.get(known.kind.lower(), "device")
    draft.vertices("device", prefix + "{i}", np.ones(num_devices, np.int64))
    return draft


def power(device: Device, num_devices: int) -> dict[str, float]:
    """Return the ``power_W`` of the accelerators alone, where the device's is published."""
    return {} if device.power is None else {"power_W": device.power * num_devices}
