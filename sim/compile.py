"""Compile: a folded program on a cluster becomes steps with seconds and resources, ready to be played.

An op shared by a thousand segments is compiled once for each rank class that runs it: kernels get their seconds from
`sim.kernels`, collectives and messages their chain of phases from `sim.collectives`, links become resources.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sim.cluster import Cluster
from sim.collectives import Communicator, point_to_point
from sim.collectives.phase import CollectivePlan
from sim.device import Device
from sim.errors import ProgramError
from sim.fold import Folding, PairClass
from sim.host import RATES, host_plan
from sim.kernels import kernel_time, steady
from sim.kernels.shapes import Memory
from sim.network.never_full import never_full
from sim.network.resources import reduce_links
from sim.program import (
    Action,
    Allocate,
    Collective,
    Compute,
    Free,
    Op,
    Program,
    Recv,
    Send,
    Signal,
    Sync,
    Wait,
)
from sim.steps import (
    BANDWIDTH,
    BRIEF,
    COLLECTIVE,
    COMPUTE,
    MEMORY,
    RECV,
    SEND,
    SIGNAL,
    SMS,
    SYNC,
    WAIT,
    Compiled,
    CompiledStream,
    Leg,
    Step,
    Steps,
)
from sim.turns import Job, turns


class _Compiler:
    """The tables that compiling fills: steps by (class, op), plans by (group, kind, bytes, algorithm)."""

    def __init__(
        self,
        program: Program,
        folding: Folding,
        cluster: Cluster,
        device_of: np.ndarray,
        launch: float,
        slower: float,
    ) -> None:
        self.program, self.folding, self.cluster = program, folding, cluster
        self.device_of, self.launch, self.slower = device_of, launch, slower
        self.communicators: dict[tuple[str, int], Communicator] = {}
        self.plans: dict[tuple[object, ...], CollectivePlan] = {}
        self.legs: dict[int, tuple[Leg, ...]] = {}
        self.durations: dict[tuple[int, int], float] = {}
        self.kinds = cluster.device_kind[device_of[folding.representative]].tolist()
        units = program.reserved_units
        self.devices = [
            without(steady(device, program.libraries), units) for device in cluster.device_kinds
        ]
        self.reserved = units / min(device.compute_units for device in cluster.device_kinds)
        self.communications: list[Step] = []
        self.users: dict[tuple[str, int], set[tuple[int, str]]] = {}

    def stream(
        self, rank_class: int, name: str, segments: Sequence[tuple[Action, tuple[Op, ...]]],
        semaphores: dict[str, int],
    ) -> CompiledStream:  # fmt: skip
        """Compile one stream; op tuples shared between segments stay shared."""
        known: dict[int, Steps] = {}
        steps_of: dict[int, Step] = {}
        compiled = []
        for action, ops in segments:
            steps = known.get(id(ops))
            if steps is None:
                steps = []
                for op in ops:
                    step = steps_of.get(id(op))
                    if step is None:
                        step = steps_of[id(op)] = self.step(rank_class, name, op, semaphores)
                    steps.append(step)
                known[id(ops)] = steps
            compiled.append((action, steps))
        computes = any(step.code == COMPUTE for step in steps_of.values())
        return CompiledStream(rank_class, name, compiled, computes)

    def step(self, rank_class: int, stream: str, op: Op, semaphores: dict[str, int]) -> Step:
        """Compile one op of one class."""
        match op:
            case Compute():
                step = Step(COMPUTE, op)
                step.alone = self._kernel_seconds(rank_class, op)
                step.launch = self.launch * (op.launches + op.host_work)
                step.need = -step.launch
                step.kind = BANDWIDTH if isinstance(op.kernel, Memory) else SMS
            case Collective():
                step = self._collective(rank_class, stream, op)
            case Send() | Recv():
                step = self._message(rank_class, stream, op)
            case Allocate() | Free():
                return Step(MEMORY, op)
            case Sync():
                return Step(SYNC, op)
            case Wait():
                step = Step(WAIT, op)
            case Signal():
                step = Step(SIGNAL, op)
        if waits := getattr(op, "waits", ()):
            step.waits = tuple([_number(name, semaphores) for name in waits])
        if signals := getattr(op, "signals", ()):
            step.signals = tuple([_number(name, semaphores) for name in signals])
        if starts := getattr(op, "starts", ()):
            step.starts = tuple([_number(name, semaphores) for name in starts])
        return step

    def _kernel_seconds(self, rank_class: int, op: Compute) -> float:
        kind = self.kinds[rank_class]
        key = (kind, id(op))
        if key not in self.durations:
            seconds = kernel_time(op.kernel, self.devices[kind], op.launches)
            self.durations[key] = seconds * self.slower
        return self.durations[key]

    def _collective(self, rank_class: int, stream: str, op: Collective) -> Step:
        group = self.folding.group_of.get((op.axis, rank_class))
        if group is None:
            raise ProgramError(
                f"collective {op.name!r} on axis {op.axis!r}: rank {self.folding.representative[rank_class]} is in no "
                f"group of that axis; axes: {', '.join(self.program.groups) or 'none'}"
            )
        key = (op.axis, group.index)
        if key not in self.communicators:
            self.communicators[key] = Communicator(self.cluster, self.device_of[group.ranks])
        step = Step(COLLECTIVE, op)
        plan_key = (key, op.kind, op.nbytes, op.algorithm, op.spread)
        if plan_key not in self.plans:
            kind = int(self.cluster.device_kind[self.device_of[group.ranks[0, 0]]])
            self.plans[plan_key] = (
                host_plan(op.kind, op.nbytes, self.cluster.device_kinds[kind])
                if op.kind in RATES
                else self.communicators[key].plan(op.kind, op.nbytes, op.algorithm, op.spread)
            )
        self._communicate(step, self.plans[plan_key], key, (rank_class, stream))
        step.parties = len(group.members)
        step.classes = group.members
        return step

    def _message(self, rank_class: int, stream: str, op: Send | Recv) -> Step:
        sending = isinstance(op, Send)
        table = self.folding.sends_to if sending else self.folding.receives_from
        pair = table.get((op.channel, rank_class))
        if pair is None:
            raise ProgramError(
                f"{'send' if sending else 'recv'} {op.name!r}: rank {self.folding.representative[rank_class]} has no "
                f"peer on channel {op.channel!r}; channels: {', '.join(self.program.peers) or 'none'}"
            )
        step = Step(SEND if sending else RECV, op)
        key = (op.channel, pair.index)
        step.key = key
        step.classes = (pair.src, pair.dst)
        if sending:
            self._communicate(
                step, self._message_plan(pair, key, op.nbytes), key, (rank_class, stream)
            )
        return step

    def _message_plan(self, pair: PairClass, key: tuple[str, int], nbytes: float) -> CollectivePlan:
        plan_key = (key, "send_recv", nbytes)
        if plan_key not in self.plans:
            src, dst = self.device_of[pair.ranks].T
            self.plans[plan_key] = point_to_point(self.cluster, src, dst, nbytes)
        return self.plans[plan_key]

    def _communicate(
        self, step: Step, plan: CollectivePlan, key: tuple[str, int], user: tuple[int, str]
    ) -> None:
        step.key = key
        step.plan = plan
        if id(plan) not in self.legs:
            self.legs[id(plan)] = tuple(Leg(phase, self.reserved) for phase in plan.phases)
        step.legs = self.legs[id(plan)]
        step.alone = sum(leg.latency + leg.nbytes / leg.ceiling for leg in step.legs)
        self.users.setdefault(key, set()).add(user)
        self.communications.append(step)


def without(device: Device, units: int) -> Device:
    """Return a device as kernels find it that leave ``units`` of its compute units to communication."""
    if not units:
        return device
    left = device.compute_units - units
    if left < 1:
        raise ProgramError(
            f"reserved_units={units} leaves no compute unit of {device.name}, which has {device.compute_units}; "
            f"reserve at most {device.compute_units - 1}"
        )
    part = left / device.compute_units
    peak = {dtype: rate * part for dtype, rate in device.peak.items()}
    return replace(device, compute_units=left, peak=peak)


def _number(name: str, semaphores: dict[str, int]) -> int:
    return semaphores.setdefault(name, len(semaphores))


def compile_program(
    program: Program,
    folding: Folding,
    cluster: Cluster,
    device_of: np.ndarray,
    *,
    launch: float = 0.0,
    keep_links: Sequence[int] = (),
    rounds: bool = False,
    slower: float = 1.0,
) -> Compiled:
    """Give every op its seconds and resources; ``launch`` host seconds a kernel; ``keep_links`` will change.

    ``rounds``: communication will be played round by round (`sim.turns`). ``slower``: kernels take that much longer.
    """
    compiler = _Compiler(program, folding, cluster, device_of, launch, slower)
    streams: list[CompiledStream] = []
    semaphores = []
    for rank_class, rank in enumerate(folding.representative):
        script = program.scripts[program.script_of_rank[rank]]
        numbers: dict[str, int] = {}
        for name, segments in script.streams.items():
            streams.append(compiler.stream(rank_class, name, segments, numbers))
        counts = tuple(script.semaphores.get(name, 0) for name in numbers)
        semaphores.append((tuple(numbers), counts))
    attach = _attach_turns if rounds else _attach_resources
    capacity, kept = attach(compiler, cluster, keep_links)
    overlapping = _mark_overlaps(compiler, streams, folding.num_classes, set(kept.values()))
    return Compiled(
        streams,
        semaphores,
        capacity,
        kept,
        compiler.communications,
        overlapping,
        compiler.durations,
        slower,
    )


def _attach_resources(
    compiler: _Compiler, cluster: Cluster, keep: Sequence[int]
) -> tuple[list[float], Mapping[int, int]]:
    """Turn the links of every leg into resources (legs with the same loads share one pattern)."""
    patterns: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
    legs = [
        leg
        for chain in compiler.legs.values()
        for leg in chain
        if len(leg.phase.links) and not leg.brief
    ]
    for leg in legs:
        phase = leg.phase
        patterns.setdefault((id(phase.links), id(phase.loads)), (phase.links, phase.loads))
    counted = np.ones(len(cluster.link_capacity), dtype=bool) if keep else ~never_full(cluster)
    shown = [(links[counted[links]], loads[counted[links]]) for links, loads in patterns.values()]
    uses, capacity, kept = reduce_links(shown, cluster.link_capacity, keep)
    found = dict(zip(patterns, uses, strict=True))
    for leg in legs:
        leg.uses = found[id(leg.phase.links), id(leg.phase.loads)]
        _free_from(leg, cluster.link_capacity, kept)
    return capacity, kept


def _attach_turns(
    compiler: _Compiler, cluster: Cluster, keep: Sequence[int]
) -> tuple[list[float], Mapping[int, int]]:
    """Give every step the rounds of its plan."""
    jobs: dict[int, Job] = {}
    for step in compiler.communications:
        assert step.plan is not None
        communicator = compiler.communicators.get(step.key) if step.code == COLLECTIVE else None
        jobs[id(step.plan)] = (step.plan, communicator.groups if communicator else None)
    made = turns(cluster, list(jobs.values()), BRIEF, keep)
    found = dict(zip(jobs, made.of, strict=True))
    for step in compiler.communications:
        step.turns = found[id(step.plan)]
    return made.capacity, made.resource_of_link


def _free_from(leg: Leg, capacity: np.ndarray, kept: Mapping[int, int]) -> None:
    """Take links that will change out of a leg's ceiling: as resources they limit it, at the efficiency it reaches."""
    phase = leg.phase
    changes = np.isin(phase.links, list(kept))
    if not changes.any():
        return
    limits = capacity[phase.links] / phase.loads
    efficiency = phase.ceiling / float(limits.min())
    leg.ceiling = efficiency * float(limits[~changes].min(initial=np.inf))
    resources = set(kept.values())
    leg.uses = tuple((r, load / efficiency if r in resources else load) for r, load in leg.uses)


def _mark_overlaps(
    compiler: _Compiler, streams: list[CompiledStream], num_classes: int, changing: set[int]
) -> tuple[bool, ...]:
    """Mark steps nothing else can touch as quick; say which classes compute beside communication or compute.

    A communicator used from one stream of each class never meets itself; resources no other communicator uses are
    its own, unless they will change (``changing``). On the stream that computes, a collective has the device to itself
    if no other stream computes.
    """
    owners: dict[int, set[tuple[str, int]]] = {}
    used_by = {(step.key, id(leg)): leg for step in compiler.communications for leg in step.legs}
    for (key, _), leg in used_by.items():
        for resource, _ in leg.uses:
            owners.setdefault(resource, set()).add(key)
    compute_streams: list[set[str]] = [set() for _ in range(num_classes)]
    for stream in streams:
        if stream.computes:
            compute_streams[stream.rank_class].add(stream.name)
    overlapping = [len(names) > 1 for names in compute_streams]
    for stream in streams:
        own = compute_streams[stream.rank_class]
        if not own - {stream.name}:
            continue
        for steps in {id(steps): steps for _, steps in stream.segments}.values():
            for step in steps:
                if step.plan is not None and any(s.sm_share or s.memory_share for s in step.legs):
                    for rank_class in step.classes:
                        overlapping[rank_class] = True
    for stream in streams:
        own = compute_streams[stream.rank_class]
        for steps in {id(steps): steps for _, steps in stream.segments}.values():
            for step in steps:
                if step.code == COLLECTIVE and step.parties == 1:
                    single_stream = len({name for _, name in compiler.users[step.key]}) == 1
                    used = {r for s in step.legs for r, _ in s.uses}
                    alone = not used & changing and all(owners[r] == {step.key} for r in used)
                    untaxed = own <= {stream.name} or not any(
                        s.sm_share or s.memory_share for s in step.legs
                    )
                    step.quick = single_stream and alone and untaxed and not step.turns
    return tuple(overlapping)
