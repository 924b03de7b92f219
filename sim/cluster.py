"""Cluster: devices and switches joined by links, as a networkx graph and as frozen arrays.

A *link* here is a trunk: all parallel cables of one direction between two vertices, which ideal (adaptive) routing
loads alike; ``width`` counts the cables. Vertices 0 .. num_devices-1 are the devices; a vertex may stand for ``count``
equal switches (the spines of a pod). `Cluster.graph` draws every trunk and every switch out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sim.device import Device
from sim.errors import TopologyError, unknown
from sim.routing import Router, Routes, shortest_paths

__all__ = ["Cluster", "LinkKind", "Links", "Router", "Routes", "from_graph"]


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

    def __len__(self) -> int:
        """How many trunks."""
        return len(self.src)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cluster:
    """A machine.

    ``device_kinds``/``device_kind``: the distinct devices and (num_devices,) which one each is. ``host``
    (num_devices,): the server (or tray) a device sits in; ``domain`` (num_devices,): its scale-up domain (the NVLink
    host or rack, the UB super-node, the ICI slice). ``vertex_kind`` and ``vertex_count`` describe all vertices
    (devices first). ``facts``: published power (W), switch and transceiver counts, bisection (bytes/s) ...
    ``coordinates`` (num_devices, axes) and ``shape`` are there for tori and meshes; ``wrap`` says which axes close.
    ``top``: the highest vertex of the network between domains (-1: none), ``exits`` the routes of devices to it (one
    way, then the other), for whoever joins clusters.
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
    coordinates: np.ndarray | None = None
    shape: tuple[int, ...] = ()
    wrap: tuple[bool, ...] = ()
    top: int = -1
    exits: Callable[[np.ndarray], tuple[Routes, Routes]] | None = None

    @property
    def num_devices(self) -> int:
        """How many devices the cluster has."""
        return len(self.device_kind)

    @property
    def num_vertices(self) -> int:
        """How many vertices: devices, switches and groups of equal switches."""
        return len(self.vertex_count)

    @property
    def num_links(self) -> int:
        """How many directed trunks."""
        return len(self.links)

    def device(self, index: int) -> Device:
        """Return the device at ``index``."""
        return self.device_kinds[int(self.device_kind[index])]

    @cached_property
    def link_capacity(self) -> np.ndarray:
        """Payload bytes/s of every trunk: raw rate times the efficiency of its kind (num_links,)."""
        efficiency = np.array([kind.efficiency for kind in self.link_kinds])
        capacity: np.ndarray = self.links.bandwidth * efficiency[self.links.kind]
        return capacity

    def routes(self, src: Sequence[int] | np.ndarray, dst: Sequence[int] | np.ndarray) -> Routes:
        """Return the links the traffic of pairs (src[i], dst[i]) crosses; a device to itself crosses none.

        Shares of a pair add up to its number of hops. Raises `TopologyError` for a device that does not exist.
        """
        a = self._devices(src)
        b = self._devices(dst)
        return self.router(a, b)

    def path_latency(
        self, src: Sequence[int] | np.ndarray, dst: Sequence[int] | np.ndarray
    ) -> np.ndarray:
        """Return seconds from src[i] to dst[i]: hops of the path added up (the mean where paths differ)."""
        routes = self.routes(src, dst)
        seconds = routes.share * self.links.latency[routes.link]
        return np.bincount(routes.pair, seconds, minlength=len(np.atleast_1d(src)))

    def link_name(self, link: int) -> str:
        """Return the name of a trunk: ``leaf0->spine``."""
        return f"{self.vertex_name(int(self.links.src[link]))}->{self.vertex_name(int(self.links.dst[link]))}"

    @cached_property
    def link_index(self) -> Mapping[str, int]:
        """Link by name (built when first asked for)."""
        return {self.link_name(link): link for link in range(self.num_links)}

    def switch_names(self, vertex: int) -> list[str]:
        """Return the names of the switches a vertex stands for: the vertex itself, or its name and an index."""
        name, count = self.vertex_name(vertex), int(self.vertex_count[vertex])
        return [name] if count == 1 else [f"{name}{i}" for i in range(count)]

    @cached_property
    def graph(self) -> Any:
        """The machine drawn out as a `networkx.DiGraph`: a node a device or switch, an edge its cables.

        Cable i of a trunk joins switch i modulo the count of either end. Nodes carry ``kind`` and ``vertex``; edges
        ``kind``, ``bandwidth`` (raw bytes/s), ``latency``, ``cables`` and ``link``, the trunk they are part of.
        """
        import networkx as nx

        graph = nx.DiGraph(name=self.name)
        names = [self.switch_names(v) for v in range(self.num_vertices)]
        for vertex, switches in enumerate(names):
            graph.add_nodes_from(switches, kind=self.vertex_kind[vertex], vertex=vertex)
        links = self.links
        for link in np.flatnonzero(links.width > 0).tolist():
            width, kind = int(links.width[link]), self.link_kinds[int(links.kind[link])].name
            cable = float(links.bandwidth[link]) / width
            tails, heads = names[int(links.src[link])], names[int(links.dst[link])]
            for i in range(width):
                tail, head = tails[i % len(tails)], heads[i % len(heads)]
                if graph.has_edge(tail, head):
                    graph[tail][head]["cables"] += 1
                    graph[tail][head]["bandwidth"] += cable
                else:
                    graph.add_edge(
                        tail,
                        head,
                        kind=kind,
                        bandwidth=cable,
                        latency=float(links.latency[link]),
                        cables=1,
                        link=link,
                    )
        return graph

    def with_bandwidth(
        self, link: int | str | Sequence[int] | np.ndarray, factor: float
    ) -> "Cluster":
        """Return a copy in which ``link`` (index, indices or name) runs at ``factor`` of its rate, above 0."""
        if factor <= 0:
            raise TopologyError(f"factor={factor} must be above 0; remove a link with degrade")
        if isinstance(link, str):
            if link not in self.link_index:
                raise TopologyError(unknown("link", link, self.link_index))
            link = self.link_index[link]
        bandwidth = self.links.bandwidth.copy()
        bandwidth[link] *= factor
        return replace(self, links=replace(self.links, bandwidth=bandwidth))

    def with_device(self, index: int, device: Device) -> "Cluster":
        """Return a copy in which device ``index`` is ``device``."""
        self._devices([index])
        kinds = self.device_kinds if device in self.device_kinds else (*self.device_kinds, device)
        chosen = self.device_kind.copy()
        chosen[index] = kinds.index(device)
        return replace(self, device_kinds=kinds, device_kind=chosen)

    def use(self, order: Sequence[int] | np.ndarray) -> "Cluster":
        """Return the cluster whose device i is device ``order[i]`` of this one; the others stand idle.

        Link indices stay. Raises `TopologyError` for a device listed twice or not there.
        """
        chosen = self._devices(order)
        values, counts = np.unique(chosen, return_counts=True)
        if len(values) < len(chosen):
            raise TopologyError(
                f"device {int(values[counts.argmax()])} is listed twice; list every device once"
            )
        idle = np.setdiff1d(np.arange(self.num_devices), chosen)
        old = np.concatenate([chosen, idle, np.arange(self.num_devices, self.num_vertices)])
        new = np.empty_like(old)
        new[old] = np.arange(len(old))
        name, router = self.vertex_name, self.router
        links = replace(self.links, src=new[self.links.src], dst=new[self.links.dst])
        return replace(
            self,
            device_kind=self.device_kind[chosen],
            host=self.host[chosen],
            domain=self.domain[chosen],
            vertex_kind=tuple(self.vertex_kind[v] for v in old.tolist()),
            vertex_name=lambda v: name(int(old[v])),
            vertex_count=self.vertex_count[old],
            links=links,
            router=lambda a, b: router(chosen[a], chosen[b]),
            coordinates=None if self.coordinates is None else self.coordinates[chosen],
            top=-1,
            exits=None,
        )

    def _devices(self, index: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return an array of devices after checking that each exists."""
        devices = np.atleast_1d(np.asarray(index, dtype=np.int64))
        if len(devices) and not (devices.min() >= 0 and devices.max() < self.num_devices):
            bad = devices[(devices < 0) | (devices >= self.num_devices)][0]
            raise TopologyError(
                f"device {int(bad)} does not exist in {self.name}; choose from 0 to {self.num_devices - 1}"
            )
        return devices


def from_graph(
    graph: Any,
    *,
    devices: Iterable[Any] | None = None,
    device: Device | None = None,
    name: str = "graph",
    efficiency: float = 1.0,
) -> Cluster:
    """Return the cluster of anybody's networkx graph; shortest paths, ties spread equally.

    ``devices``: the nodes that are devices, in rank order (default: those with ``kind="device"``). Nodes may carry
    ``host`` and ``domain`` (int; default: one each), edges must carry ``bandwidth`` (bytes/s) and may carry ``latency``
    (s), ``width`` and ``kind``. An undirected graph gets both directions. Raises `TopologyError`.
    """
    kinds = dict(graph.nodes(data="kind"))
    first = list(devices) if devices is not None else [n for n in graph if kinds[n] == "device"]
    if not first:
        raise TopologyError(
            'the graph has no device: mark nodes with kind="device" or name them in devices='
        )
    taken = set(first)
    nodes = first + [n for n in graph if n not in taken]
    vertex = {node: i for i, node in enumerate(nodes)}
    directed = graph if graph.is_directed() else graph.to_directed()
    links, names = _links_of(directed, vertex)
    host = np.array([graph.nodes[n].get("host", i) for i, n in enumerate(first)])
    domain = np.array([graph.nodes[n].get("domain", host[i]) for i, n in enumerate(first)])

    def vertex_name(v: int) -> str:
        return str(nodes[v])

    return Cluster(
        name=name,
        family="graph",
        device_kinds=(device,) if device is not None else (_PLAIN,),
        device_kind=np.zeros(len(first), np.int64),
        host=host,
        domain=domain,
        vertex_kind=tuple(
            str(kinds[n]) if kinds[n] else ("device" if i < len(first) else "switch")
            for i, n in enumerate(nodes)
        ),
        vertex_name=vertex_name,
        vertex_count=np.ones(len(nodes), np.int64),
        link_kinds=tuple(LinkKind(name=kind, efficiency=efficiency) for kind in names),
        links=links,
        router=shortest_paths(
            links.src, links.dst, links.latency, links.width, vertex_name, len(nodes)
        ),
    )


def _links_of(graph: Any, vertex: Mapping[Any, int]) -> tuple[Links, list[str]]:
    """Return the edges of a directed graph as links, and the names of their kinds."""
    edges = list(graph.edges(data=True))
    for a, b, data in edges:
        if data.get("bandwidth", 0) <= 0:
            raise TopologyError(
                f"link {a}->{b} has bandwidth={data.get('bandwidth')}; give bytes/s above 0"
            )
    names = sorted({str(data.get("kind", "link")) for _, _, data in edges})
    links = Links(
        src=np.array([vertex[a] for a, _, _ in edges], np.int64),
        dst=np.array([vertex[b] for _, b, _ in edges], np.int64),
        bandwidth=np.array([float(data["bandwidth"]) for _, _, data in edges]),
        latency=np.array([float(data.get("latency", 0.0)) for _, _, data in edges]),
        width=np.array([int(data.get("width", 1)) for _, _, data in edges], np.int64),
        kind=np.array(
            [names.index(str(data.get("kind", "link"))) for _, _, data in edges], np.int64
        ),
    )
    return links, names


_PLAIN = Device(
    name="plain",
    vendor="none",
    kind="gpu",
    peak={"bf16": 1.0, "fp32": 1.0},
    memory_bytes=1.0,
    memory_bandwidth=1.0,
    compute_units=1,
)
