"""Machines and programs small enough to check by hand: kernels of whole seconds, links of one byte a second."""

import networkx as nx
import numpy as np

from sim.cluster import from_graph
from sim.device import Device
from sim.kernels.shapes import Memory
from sim.program import Action, Collective, Compute, Program, Recv, Script, Segment, Send

UNIT = Device(
    name="unit",
    vendor="none",
    kind="gpu",
    peak={"bf16": 1.0, "fp32": 1.0},
    memory_bytes=1e12,
    memory_bandwidth=2.0**200,
    compute_units=10,
    calibration={"memory.start": 0.0, "memory.bandwidth": 2.0**-200},
)
"""One byte of a memory kernel is one second; communication takes nothing of it that could be seen."""

F0 = Action("F", 0, 0, 0)


def kernel(name, seconds, phase="F", **more):
    """A kernel of known duration."""
    return Compute(name, Memory("copy", float(seconds)), phase, **more)


def star(n, bandwidth=1.0, latency=0.0, device=UNIT):
    """n devices on one switch; every link carries ``bandwidth`` bytes/s one way."""
    graph = nx.DiGraph()
    for i in range(n):
        graph.add_node(f"d{i}", kind="device", domain=0)
    for i in range(n):
        for a, b in ((f"d{i}", "switch"), ("switch", f"d{i}")):
            graph.add_edge(a, b, bandwidth=bandwidth, latency=latency / 2)
    return from_graph(graph, device=device)


def pods(sizes, bandwidth=1.0, uplink=1.0, device=UNIT):
    """Pods of devices: a switch a pod, ``uplink`` bytes/s one way from each to the one on top; a host a device."""
    graph = nx.DiGraph()
    for i in range(sum(sizes)):
        graph.add_node(f"d{i}", kind="device")
    number = 0
    for pod, size in enumerate(sizes):
        for _ in range(size):
            graph.add_edge(f"d{number}", f"leaf{pod}", bandwidth=bandwidth)
            graph.add_edge(f"leaf{pod}", f"d{number}", bandwidth=bandwidth)
            number += 1
        graph.add_edge(f"leaf{pod}", "top", bandwidth=uplink)
        graph.add_edge("top", f"leaf{pod}", bandwidth=uplink)
    return from_graph(graph, device=device)


def segments(*ops, action=F0):
    """One segment."""
    return (Segment(action, tuple(ops)),)


def program(*streams, groups=None, peers=None, semaphores=None, memory=None, places=None):
    """A script a rank: ``streams[r]`` maps a stream's name to its ops (one segment) or its segments."""
    scripts = []
    for rank, each in enumerate(streams):
        made = {
            name: ops if ops and isinstance(ops[0], Segment) else segments(*ops)
            for name, ops in each.items()
        }
        scripts.append(
            Script(
                streams=made,
                semaphores=(semaphores or {}),
                memory=(memory or {}),
                place=rank if places is None else places[rank],
            )
        )
    return Program(
        scripts=tuple(scripts),
        script_of_rank=np.arange(len(streams)),
        groups={k: np.array(v) for k, v in (groups or {}).items()},
        peers={k: np.array(v) for k, v in (peers or {}).items()},
        flops={"full": 1.0, "causal": 1.0, "hardware": 1.0},
        tokens=1.0,
    )


def alike(num_ranks, streams, groups=None, peers=None, semaphores=None):
    """One script that every rank runs."""
    made = {name: segments(*ops) for name, ops in streams.items()}
    return Program(
        scripts=(Script(streams=made, semaphores=semaphores or {}),),
        script_of_rank=np.zeros(num_ranks, int),
        groups={k: np.array(v) for k, v in (groups or {}).items()},
        peers={k: np.array(v) for k, v in (peers or {}).items()},
        flops={"full": 1.0, "causal": 1.0, "hardware": 1.0},
        tokens=1.0,
    )


def spans(timeline, rank, stream=None):
    """(name, posted, start, end) of every op of a rank."""
    rows = timeline.spans(timeline.class_of_rank(rank), stream)
    return [(s.op.name, s.posted, s.start, s.end) for s in rows]


def bars(timeline, rank, stream=None):
    """(name, start, end) of every op of a rank."""
    return [(name, start, end) for name, _, start, end in spans(timeline, rank, stream)]


__all__ = [
    "F0", "UNIT", "Collective", "Recv", "Send", "alike", "bars", "kernel", "pods", "program", "segments", "spans",
    "star",
]  # fmt: skip
