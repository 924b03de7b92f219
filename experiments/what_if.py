"""What if: the step replayed with one resource twice as fast, and with it free: what to buy and what to fix.

Each question is a replay of the same program on a changed copy of the machine (or, for the pipeline, of a program
whose stages do not wait for each other). Nothing is scaled by hand: algorithms are chosen anew, overlap shifts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.runfile import RunConfig
from experiments.simulation import JITTER
from sim.cluster import Cluster, LinkKind
from sim.device import Device
from sim.engine import simulate
from sim.program import Compute, Op, Program, Recv, Script, Segment, Wait
from sim.timeline import Timeline
from sim.units import MEGA
from workloads.lower import lower
from workloads.software import software

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TWICE, FREE = 2.0, 1.0 * MEGA
"""How many times faster; a resource a million times faster costs nothing."""
SECONDS = ("base", "step", "hop", "plateau")
"""Last words of a link kind's constants that are latencies; ``units`` are compute units its kernels hold."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What one replay plays: program, machine, and host seconds a kernel."""

    program: Program
    cluster: Cluster
    launch: float

    def step_time(self) -> float:
        """Seconds of the step."""
        timeline = simulate(
            self.program, self.cluster, launch=self.launch, merged=True, jitter=JITTER
        )
        return timeline.step_time


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource: its name, what becomes faster, how the setup changes, and the colour of its bar (`sim.palette`)."""

    name: str
    what: str
    faster: Callable[[Setup, float], Setup]
    cause: str


def what_if(config: RunConfig, timeline: Timeline) -> list[dict[str, Any]]:
    """Return a row a resource: ``resource what step_time_s twice_as_fast_s free_s`` and the gains, 0..1 of the step.

    ``twice_as_fast_s`` and ``free_s`` are step times. ``pipeline``: free is the replay in which no stage waits for
    another's output; a step of twice the microbatches spreads the same wait over two, hence twice as fast.
    """
    setup = Setup(timeline.program, timeline.cluster, software(config.plan.software).launch)
    base = timeline.step_time
    rows = []
    for resource in RESOURCES:
        twice = resource.faster(setup, TWICE).step_time()
        free = resource.faster(setup, FREE).step_time()
        rows.append(_row(resource.name, resource.what, base, twice, free))
    twice, free = _pipeline(config, setup, base)
    rows.append(_row(PIPELINE.name, PIPELINE.what, base, twice, free))
    return rows


def _row(name: str, what: str, base: float, twice: float, free: float) -> dict[str, Any]:
    return {
        "resource": name,
        "what": what,
        "step_time_s": base,
        "twice_as_fast_s": twice,
        "free_s": free,
        "twice_as_fast_gain": 1.0 - twice / base,
        "free_gain": 1.0 - free / base,
    }


def _devices(setup: Setup, change: Callable[[Device], Device]) -> Setup:
    cluster = setup.cluster
    return replace(
        setup, cluster=replace(cluster, device_kinds=tuple(map(change, cluster.device_kinds)))
    )


def _scaled(table: Mapping[str, float], last: tuple[str, ...], factor: float) -> dict[str, float]:
    """Return constants, those whose name ends in one of some words times a factor."""
    return {
        key: value * factor if key.replace(".", "_").endswith(last) else value
        for key, value in table.items()
    }


def _compute(setup: Setup, factor: float) -> Setup:
    def change(device: Device) -> Device:
        peak = {dtype: rate * factor for dtype, rate in device.peak.items()}
        return replace(
            device, peak=peak, calibration=_scaled(device.calibration, ("_cache",), factor)
        )

    return _devices(setup, change)


def _memory(setup: Setup, factor: float) -> Setup:
    return _devices(
        setup, lambda device: replace(device, memory_bandwidth=device.memory_bandwidth * factor)
    )


def inside_domains(cluster: Cluster) -> np.ndarray:
    """Return which links are of a kind that joins devices of one scale-up domain, (num_links,) bool."""
    order = np.argsort(cluster.domain, kind="stable")
    found: set[int] = set()
    for kind in range(len(cluster.device_kinds)):
        own = order[cluster.device_kind[order] == kind]
        if not len(own):
            continue
        members = own[cluster.domain[own] == cluster.domain[own[0]]]
        steps = [2**k for k in range(int(len(members) - 1).bit_length())]
        pairs = [(members, np.roll(members, -step)) for step in steps]
        for src, dst in pairs:
            found.update(cluster.links.kind[cluster.routes(src, dst).link].tolist())
    inside: np.ndarray = np.isin(cluster.links.kind, sorted(found))
    return inside


def _links(setup: Setup, factor: float, *, inside: bool) -> Setup:
    cluster = setup.cluster
    chosen = np.flatnonzero(inside_domains(cluster) == inside)
    return replace(setup, cluster=cluster.with_bandwidth(chosen, factor))


def _kinds(setup: Setup, change: Callable[[LinkKind], LinkKind], *, wire: float = 1.0) -> Setup:
    cluster = setup.cluster
    links = replace(cluster.links, latency=cluster.links.latency * wire)
    kinds = tuple(map(change, cluster.link_kinds))
    return replace(setup, cluster=replace(cluster, link_kinds=kinds, links=links))


def _latency(setup: Setup, factor: float) -> Setup:
    def change(kind: LinkKind) -> LinkKind:
        constants = _scaled(kind.constants, SECONDS, 1.0 / factor)
        return replace(kind, latency=kind.latency / factor, constants=constants)

    return _kinds(setup, change, wire=1.0 / factor)


def _units(setup: Setup, factor: float) -> Setup:
    changed = _kinds(
        setup,
        lambda kind: replace(kind, constants=_scaled(kind.constants, ("units",), 1.0 / factor)),
    )
    reserved = int(setup.program.reserved_units // factor)
    return replace(changed, program=replace(setup.program, reserved_units=reserved))


def _launch(setup: Setup, factor: float) -> Setup:
    changed = _devices(
        setup,
        lambda device: replace(
            device, calibration=_scaled(device.calibration, ("_start",), 1.0 / factor)
        ),
    )
    return replace(changed, launch=setup.launch / factor)


def _pipeline(config: RunConfig, setup: Setup, base: float) -> tuple[float, float]:
    """Return the step with half the pipeline's waiting, and without any."""
    plan = config.plan
    if plan.pp == 1:
        return base, base
    free = replace(setup, program=unlinked(setup.program)).step_time()
    longer = lower(config.model, replace(plan, global_batch=2 * plan.global_batch))
    waiting = replace(setup, program=longer).step_time()
    waiting -= replace(setup, program=unlinked(longer)).step_time()
    return free + waiting / TWICE, free


def unlinked(program: Program) -> Program:
    """Return a program in which nobody waits for what arrives: every receive is there when it is needed."""
    return replace(program, scripts=tuple(map(_unlinked, program.scripts)))


def _unlinked(script: Script) -> Script:
    segments = [segment for stream in script.streams.values() for segment in stream]
    bodies = {id(segment.ops): segment.ops for segment in segments}
    arrivals = {
        name for ops in bodies.values() for op in ops if isinstance(op, Recv) for name in op.signals
    }
    freed = {key: tuple(_freed(op, arrivals) for op in ops) for key, ops in bodies.items()}
    streams = {
        name: tuple(Segment(segment.action, freed[id(segment.ops)]) for segment in stream)
        for name, stream in script.streams.items()
    }
    return replace(script, streams=streams)


def _freed(op: Op, arrivals: set[str]) -> Op:
    """Return an op that waits for no arrival."""
    if isinstance(op, Wait | Compute) and arrivals.intersection(op.waits):
        return replace(op, waits=tuple(name for name in op.waits if name not in arrivals))
    return op


RESOURCES = (
    Resource("compute", "matrix units and on-chip memory of the device", _compute, "compute"),
    Resource("memory", "bandwidth of the device's memory (HBM)", _memory, "optimizer"),
    Resource(
        "scale_up",
        "links inside a scale-up domain (NVLink, ICI, UB)",
        lambda setup, factor: _links(setup, factor, inside=True),
        "exposed.tp",
    ),
    Resource(
        "scale_out",
        "links between domains (NICs and the switches above)",
        lambda setup, factor: _links(setup, factor, inside=False),
        "exposed.dp",
    ),
    Resource(
        "latency", "latency of links and of every step of a collective", _latency, "exposed.cp"
    ),
    Resource(
        "comm_units", "compute units (SMs) that communication holds", _units, "overlap_slowdown"
    ),
    Resource("launch", "host time a kernel, and its start on the device", _launch, "launch"),
)
"""What is made faster, in the order it is shown."""
PIPELINE = Resource(
    "pipeline",
    "waits of pipeline stages for each other (bubble)",
    lambda setup, _: setup,
    "bubble.warmup",
)


def what_if_figure(rows: list[dict[str, Any]], title: str) -> "Figure":
    """Return the step times as bars: as it is, twice as fast, free (matplotlib loads here)."""
    from matplotlib.figure import Figure

    from sim.palette import cause_hue, mix

    causes = {resource.name: resource.cause for resource in (*RESOURCES, PIPELINE)}
    shown = sorted(rows, key=lambda row: float(row["free_s"]), reverse=True)
    figure = Figure(figsize=(9.0, 1.4 + 0.62 * len(shown)), dpi=130)
    axes = figure.subplots()
    for place, row in enumerate(shown):
        colour = cause_hue(causes[row["resource"]]).colour
        for offset, key, pale in ((0.2, "twice_as_fast", 0.45), (-0.2, "free", 0.0)):
            seconds, gain = row[f"{key}_s"], row[f"{key}_gain"]
            axes.barh(place + offset, seconds, 0.36, color=mix(colour, pale))
            axes.text(
                seconds,
                place + offset,
                f" {seconds:.3g} s ({-gain:+.1%})",
                va="center",
                fontsize=7,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4},
            )
    base = rows[0]["step_time_s"]
    axes.axvline(base, color="#444444", linewidth=1.0, linestyle="--")
    axes.set_yticks(range(len(shown)), [row["resource"].replace("_", " ") for row in shown])
    axes.set_xlim(0, base * 1.18)
    axes.set_xlabel("step time (s); pale: twice as fast, full colour: free; dashed: as it is")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{title}: {_finding(shown)}", loc="left", fontsize=9)
    figure.tight_layout()
    return figure


def _finding(shown: list[dict[str, Any]]) -> str:
    """Say what a faster machine would gain most from, and what next."""
    first, second = shown[-1], shown[-2]
    name, other = (row["resource"].replace("_", " ") for row in (first, second))
    gain, more = first["twice_as_fast_gain"], second["twice_as_fast_gain"]
    return f"twice the {name} saves {gain:.0%} of the step, next {other} {more:.0%}"
