"""The engine: SimPy processes play a program on a cluster. Here, and in `sim.activity`, is time.

Every (rank class, stream) is one process, `run_stream`: it takes the ops of its stream in order, waits for what each
needs, lets it run and notes when it started and ended. A running op is an *activity* (`sim.activity`): kernels run on
the device, transfers on the network's shared resources; when another activity starts or ends, the rates of those it
shares with change, and their timers move. A kernel or transfer that shares nothing is a single SimPy timeout.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from simpy import Environment, Event, Timeout

from sim.activity import DeviceState, Process, play, retime, wake
from sim.chain import merge
from sim.cluster import Cluster
from sim.compile import compile_program
from sim.errors import DeadlockError, ProgramError, unknown
from sim.fold import Folding, fold
from sim.jitter import jitter_told, slowest
from sim.meeting import Mail, Meeting, Meetings, Semaphore
from sim.network.shared import Shared
from sim.program import Action, Allocate, Free, Program, Send
from sim.steps import CHAIN, COLLECTIVE, COMPUTE, MEMORY, RECV, SEND, SYNC, Compiled, Step
from sim.timeline import HOST, StreamRecord, Timeline


@dataclass(frozen=True, slots=True)
class LinkChange:
    """At ``time`` (s) the link gets ``bandwidth`` (bytes/s of payload, the whole trunk)."""

    time: float
    link: int
    bandwidth: float


class _Run:
    """What the processes of one simulation share."""

    def __init__(self, compiled: Compiled, folding: Folding) -> None:
        self.env = Environment(initial_time=0.0)
        self.folding = folding
        self.compiled = compiled
        self.shared = Shared(compiled.capacity)
        self.shared.wake = partial(wake, self.env, self.shared)
        self.devices = [DeviceState(self.env, overlap) for overlap in compiled.overlapping]
        self.semaphores = [
            [Semaphore(name, count) for name, count in zip(names, counts, strict=True)]
            for names, counts in compiled.semaphores
        ]
        self.meetings = Meetings(self.env, folding.representative)
        self.mail = Mail(self.env, folding.representative)
        self.finished = Event(self.env)
        self.running = 0


def run_stream(
    run: _Run, record: StreamRecord, segments: list[tuple[Action, list[Step]]]
) -> Process:
    """Play one stream of one rank class: the SimPy process."""
    env, spans, here = run.env, record.spans, record.index
    device, semaphores = run.devices[record.rank_class], run.semaphores[record.rank_class]
    for action, steps in segments:
        for step in steps:
            if step.waits:
                yield from _wait(run, record, step)
            code = step.code
            if code in (COMPUTE, CHAIN):
                if step.launch:
                    yield from _launch(run, record, step)
                start = env.now
                for number in step.starts:
                    semaphores[number].signal((here, len(spans) - 1))
                if device.overlapping:
                    kernel = device.start(step)
                    yield kernel.timer
                    device.stop(kernel)
                else:
                    yield Timeout(env, step.alone)
                spans.append((step.op, action, start, start, env.now))
            elif code in PLAY:
                yield from PLAY[code](run, record, step, action)
            elif code == MEMORY:
                record.memory.append((env.now, *_taken(step)))
            elif code == SYNC:
                device.host = max(device.host, env.now)
            for number in step.signals:
                semaphores[number].signal((here, len(spans) - 1))
    record.end = env.now
    record.state = None
    run.running -= 1
    if not run.running:
        run.finished.succeed()


def _wait(run: _Run, record: StreamRecord, step: Step) -> Process:
    """Take one from each semaphore the step waits on; note the pause and what ended it."""
    for number in step.waits:
        semaphore = run.semaphores[record.rank_class][number]
        if semaphore.count:
            semaphore.count -= 1
            continue
        since = run.env.now
        semaphore.waiter = Event(run.env)
        record.state = (step, semaphore)
        cause = yield semaphore.waiter
        if run.env.now > since:
            record.gaps.append((since, run.env.now, cause))


def _collective(run: _Run, record: StreamRecord, step: Step, action: Action) -> Process:
    """Join a collective and wait for its end; the last of several rank classes to arrive plays it."""
    posted = start = run.env.now
    if step.quick:
        step.played += 1
        yield Timeout(run.env, step.alone)
    elif step.parties == 1:
        yield from play(run.env, run.shared, run.devices, step)
    else:
        meeting, everybody = run.meetings.join(record, step)
        if everybody:
            yield from play(run.env, run.shared, run.devices, step)
            meeting.event.succeed(start)
        else:
            record.state = (step, meeting)
            start = yield meeting.event
    record.spans.append((step.op, action, posted, start, run.env.now))


def _send(run: _Run, record: StreamRecord, step: Step, action: Action) -> Process:
    """Send a message: at once, or (blocking) when the receiver is there."""
    posted = run.env.now
    message, ready = run.mail.send(record, step, action)
    if ready is not None:
        record.state = (step, message)
        yield ready
    message.start = run.env.now
    yield from play(run.env, run.shared, run.devices, step)
    run.mail.arrive(step, action)
    record.spans.append((step.op, action, posted, message.start, run.env.now))


def _receive(run: _Run, record: StreamRecord, step: Step, action: Action) -> Process:
    """Wait for a message."""
    posted = run.env.now
    message, landed = run.mail.receive(record, step, action)
    if landed is not None:
        record.state = (step, message)
        yield landed
    record.spans.append((step.op, action, posted, max(message.start, posted), run.env.now))


PLAY = {COLLECTIVE: _collective, SEND: _send, RECV: _receive}


def _launch(run: _Run, record: StreamRecord, step: Step) -> Process:
    """Let the host launch a kernel (or the kernels of a chain); wait for it where it is behind.

    Kernel i of a chain starts no earlier than the host's clock plus the launches up to it, so the chain ends late by
    the largest of those less the work before it: ``need``, known beforehand.
    """
    env, device = run.env, run.devices[record.rank_class]
    gap = device.host + (step.need if step.code == CHAIN else step.launch) - env.now
    device.host += step.launch
    if gap > 0:
        record.gaps.append((env.now, env.now + gap, HOST))
        yield Timeout(env, gap)


def _taken(step: Step) -> tuple[str, float]:
    op = step.op
    assert isinstance(op, Allocate | Free)
    return op.category, op.nbytes if isinstance(op, Allocate) else -op.nbytes


def _change_link(run: _Run, change: LinkChange) -> Process:
    """Change a link's bandwidth when its time has come."""
    yield Timeout(run.env, change.time)
    resource = run.compiled.resource_of_link.get(change.link)
    if resource is not None:
        retime(run.env.now, run.shared.set_capacity(resource, change.bandwidth, run.env.now))


FIDELITIES = ("activity", "rounds")


def simulate(
    program: Program,
    cluster: Cluster,
    *,
    placement: np.ndarray | None = None,
    unfolded: bool = False,
    launch: float = 0.0,
    changes: Sequence[LinkChange] = (),
    merged: bool = False,
    fidelity: str = "activity",
    jitter: float = 0.0,
) -> Timeline:
    """Replay a program on a cluster and return what happened when.

    ``placement`` (num_ranks,): the device of each rank (default: rank r on device r). ``unfolded`` plays every rank on
    its own. ``launch``: host seconds a kernel. ``changes``: links whose bandwidth changes on the way.
    ``merged`` plays runs of ops that nothing interrupts as one step each (`sim.chain`): the same times, fewer events.
    ``fidelity``: ``activity`` plays a collective as one activity a phase, ``rounds`` every transfer of its algorithm.
    ``jitter``: standard deviation of devices' speeds, as a share; all kernels run as on the slowest (`sim.jitter`).
    `DeadlockError` if ranks wait for each other for ever; `ProgramError` if they disagree.
    """
    if fidelity not in FIDELITIES:
        raise ProgramError(unknown("fidelity", fidelity, FIDELITIES))
    device_of = _placement(program, cluster, placement)
    changed = _changed_links(cluster, changes)
    folding = fold(program, cluster, device_of, unfolded=unfolded, marked_links=changed)
    compiled = compile_program(
        program,
        folding,
        cluster,
        device_of,
        launch=launch,
        keep_links=changed,
        rounds=fidelity == "rounds",
        slower=slowest(program.num_ranks, jitter),
    )
    if merged:
        merge(compiled)
    run = _Run(compiled, folding)
    records = _play(run, changes)
    return Timeline(
        program=program,
        cluster=cluster,
        device_of=device_of,
        folding=folding,
        streams=records,
        communications=compiled.communications,
        kernel_seconds=compiled.kernel_seconds,
        slower=compiled.slower,
        assumptions=jitter_told(program.num_ranks, jitter),
        step_time=max((record.end for record in records), default=0.0),
        num_events=next(run.env._eid),
    )


def _play(run: _Run, changes: Sequence[LinkChange]) -> list[StreamRecord]:
    """Run a process a stream until all have ended; `DeadlockError` if they cannot."""
    records = [
        StreamRecord(index=i, rank_class=s.rank_class, name=s.name, computes=s.computes)
        for i, s in enumerate(run.compiled.streams)
    ]
    run.running = len(records)
    for record, stream in zip(records, run.compiled.streams, strict=True):
        run.env.process(run_stream(run, record, stream.segments))
    for change in changes:
        run.env.process(_change_link(run, change))
    try:
        if records:
            run.env.run(until=run.finished)
    except RuntimeError as error:
        if run.finished.triggered or not any(record.state for record in records):
            raise
        raise DeadlockError(_deadlock(run, records)) from error
    return records


def _changed_links(cluster: Cluster, changes: Sequence[LinkChange]) -> tuple[int, ...]:
    for change in changes:
        if not 0 <= change.link < cluster.num_links:
            raise ProgramError(
                f"link {change.link} does not exist in {cluster.name}; choose from 0 to {cluster.num_links - 1}"
            )
        if change.bandwidth <= 0 or change.time < 0:
            raise ProgramError(
                f"link {cluster.link_name(change.link)} gets bandwidth={change.bandwidth} at time={change.time}; "
                f"give bytes/s above 0 and seconds from 0"
            )
    return tuple(sorted({change.link for change in changes}))


def _placement(program: Program, cluster: Cluster, placement: np.ndarray | None) -> np.ndarray:
    device_of = np.arange(program.num_ranks) if placement is None else np.asarray(placement)
    if len(device_of) != program.num_ranks or len(np.unique(device_of)) != len(device_of):
        raise ProgramError(
            f"placement names {len(np.unique(device_of))} distinct devices for {program.num_ranks} ranks; "
            f"give each rank a device of its own"
        )
    if program.num_ranks and int(device_of.max()) >= cluster.num_devices:
        raise ProgramError(
            f"the program has {program.num_ranks} ranks on devices up to {int(device_of.max())}; cluster "
            f"{cluster.name} has {cluster.num_devices} devices; use a larger cluster or fewer ranks"
        )
    return device_of


def _deadlock(run: _Run, records: list[StreamRecord]) -> str:
    """Say who waits for what."""
    lines = []
    for record in records:
        if record.state is None:
            continue
        step, wanted = record.state
        rank = run.folding.representative[record.rank_class]
        op = step.op
        match wanted:
            case Semaphore():
                reason = f"waits for {wanted.name!r}, which nothing that can still run will signal"
            case Meeting():
                peers = [int(run.folding.representative[c]) for c in step.classes]
                reason = (
                    f"waits for the other members of its {op.axis!r} group (ranks of class {peers})"
                )
            case _:
                other = step.classes[1] if isinstance(op, Send) else step.classes[0]
                peer = int(run.folding.representative[other])
                end = "receive" if isinstance(op, Send) else "send"
                reason = f"waits for rank {peer} to {end} on channel {op.channel!r}"
        name = getattr(op, "name", type(op).__name__.lower())
        lines.append(f"  rank {rank}, stream {record.name!r}: {name!r} {reason}")
    return "deadlock: nothing can run any more\n" + "\n".join(lines)
