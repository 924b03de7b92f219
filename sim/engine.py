"""The engine: SimPy processes play a program on a cluster. Here, and in `sim.activity`, is time.

Every (rank class, stream) is one process, `run_stream`: it takes the ops of its stream in order, waits for what each
needs, lets it run and notes when it started and ended. A running op is an *activity* (`sim.activity`): kernels run on
the device, transfers on the network's shared resources; when another activity starts or ends, the rates of those it
shares with change, and their timers move. A kernel or transfer that shares nothing is a single SimPy timeout.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from simpy import Environment, Event, Timeout

from sim.activity import DeviceState, Process, play, retime
from sim.chain import merge
from sim.cluster import Cluster
from sim.compile import (
    CHAIN, COLLECTIVE, COMPUTE, MEMORY, RECV, SEND, SYNC, Compiled, Step, compile_program,
)  # fmt: skip
from sim.errors import DeadlockError, ProgramError
from sim.fold import Folding, fold
from sim.network.shared import Shared
from sim.program import Action, Allocate, Collective, Free, Program, Recv, Send
from sim.timeline import HOST, Cause, StreamRecord, Timeline


@dataclass(frozen=True, slots=True)
class LinkChange:
    """At ``time`` (s) the link gets ``bandwidth`` (bytes/s of payload, the whole trunk)."""

    time: float
    link: int
    bandwidth: float


class _Semaphore:
    """A counter one stream waits on; the cause handed over is the span that signalled."""

    __slots__ = ("count", "name", "waiter")

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count
        self.waiter: Event | None = None

    def signal(self, cause: Cause) -> None:
        if self.waiter is None:
            self.count += 1
        else:
            waiter, self.waiter = self.waiter, None
            waiter.succeed(cause)


class _Meeting:
    """A collective for which not all rank classes have arrived."""

    __slots__ = ("arrived", "event", "first")

    def __init__(self, env: Environment, first: Step) -> None:
        self.event = Event(env)
        self.arrived = 0
        self.first = first


class _Run:
    """What the processes of one simulation share."""

    def __init__(self, compiled: Compiled, folding: Folding) -> None:
        self.env = Environment(initial_time=0.0)
        self.folding = folding
        self.compiled = compiled
        self.shared = Shared(compiled.capacity)
        self.devices = [DeviceState(self.env, overlap) for overlap in compiled.overlapping]
        self.semaphores = [
            [_Semaphore(name, count) for name, count in zip(names, counts, strict=True)]
            for names, counts in compiled.semaphores
        ]
        self.meetings: dict[tuple[object, ...], _Meeting] = {}
        self.mail: dict[tuple[object, ...], "_Mail"] = {}
        self.finished = Event(self.env)
        self.running = 0


class _Mail:
    """A message between two rank classes: what the sender and the receiver have done so far."""

    __slots__ = ("arrived", "nbytes", "posted", "start", "waiter", "who")

    def __init__(self, nbytes: float, who: str) -> None:
        self.nbytes = nbytes
        self.who = who
        self.start = -1.0
        self.arrived = False
        self.posted = False
        self.waiter: Event | None = None


def run_stream(run: _Run, record: StreamRecord, segments: list[tuple[Action, list[Step]]]) -> Process:
    """Play one stream of one rank class: the SimPy process."""
    env, rank_class = run.env, record.rank_class
    device, semaphores = run.devices[rank_class], run.semaphores[rank_class]
    spans, here = record.spans, record.index
    met: dict[tuple[str, int], int] = {}
    for action, steps in segments:
        for step in steps:
            for number in step.waits:
                semaphore = semaphores[number]
                if semaphore.count:
                    semaphore.count -= 1
                    continue
                since = env.now
                semaphore.waiter = Event(env)
                record.state = (step, semaphore)
                cause = yield semaphore.waiter
                if env.now > since:
                    record.gaps.append((since, env.now, cause))
            code = step.code
            if code == COMPUTE or code == CHAIN:
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
            elif code == COLLECTIVE:
                posted = start = env.now
                if step.quick:
                    step.played += 1
                    yield Timeout(env, step.alone)
                elif step.parties == 1:
                    yield from play(env, run.shared, run.devices, step)
                else:
                    start = yield from _meet(run, record, step, met)
                spans.append((step.op, action, posted, start, env.now))
            elif code == SEND:
                posted = env.now
                ready = _post_send(run, record, step, action)
                if ready is not None:
                    yield ready
                start = env.now
                _departed(run, step, action, start)
                yield from play(env, run.shared, run.devices, step)
                _arrived(run, step, action)
                spans.append((step.op, action, posted, start, env.now))
            elif code == RECV:
                posted = env.now
                mail, landed = _post_recv(run, record, step, action)
                if landed is not None:
                    yield landed
                spans.append((step.op, action, posted, max(mail.start, posted), env.now))
            elif code == MEMORY:
                record.memory.append((env.now, *_taken(step)))
                continue
            elif code == SYNC:
                device.host = max(device.host, env.now)
                continue
            for number in step.signals:
                semaphores[number].signal((here, len(spans) - 1))
    record.end = env.now
    record.state = None
    run.running -= 1
    if not run.running:
        run.finished.succeed()


def _launch(run: _Run, record: StreamRecord, step: Step) -> Process:
    """Let the host launch a kernel (or the kernels of a chain); wait for it where it is behind.

    Kernel i of a chain starts no earlier than the host's clock plus the launches up to it, so the chain ends late by the
    largest of those less the work before it: ``need``, known beforehand.
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


def _meet(
    run: _Run, record: StreamRecord, step: Step, met: dict[tuple[str, int], int]
) -> Generator[Event, Any, float]:
    """Join a collective of several rank classes and wait for its end; return when it started.

    The last to arrive plays it; the others wait.
    """
    turn = met[step.key] = met.get(step.key, -1) + 1
    where = (step.key, record.name, turn)
    meeting = run.meetings.get(where)
    if meeting is None:
        meeting = run.meetings[where] = _Meeting(run.env, step)
    _agree(run, record, step, meeting.first)
    meeting.arrived += 1
    if meeting.arrived < step.parties:
        record.state = (step, meeting)
        start: float = yield meeting.event
        return start
    del run.meetings[where]
    start = run.env.now
    yield from play(run.env, run.shared, run.devices, step)
    meeting.event.succeed(start)
    return start


def _agree(run: _Run, record: StreamRecord, step: Step, first: Step) -> None:
    mine, other = step.op, first.op
    assert isinstance(mine, Collective) and isinstance(other, Collective)
    if (mine.kind, mine.nbytes) != (other.kind, other.nbytes):
        rank = run.folding.representative[record.rank_class]
        raise ProgramError(
            f"ranks of one group disagree on axis {mine.axis!r}, stream {record.name!r}: rank {rank} runs {mine.kind} "
            f"{mine.name!r} of {mine.nbytes:g} bytes where another runs {other.kind} {other.name!r} of "
            f"{other.nbytes:g} bytes; every member must issue the same collectives in the same order"
        )


def _mail(run: _Run, step: Step, action: Action, record: StreamRecord | None) -> "_Mail":
    op = step.op
    assert isinstance(op, Send | Recv)
    where = (step.key, action)
    mail = run.mail.get(where)
    if mail is None:
        who = f"{op.name!r} of rank {run.folding.representative[record.rank_class]}" if record else ""
        mail = run.mail[where] = _Mail(op.nbytes, who)
    elif mail.nbytes != op.nbytes and record is not None:
        rank = run.folding.representative[record.rank_class]
        raise ProgramError(
            f"send and receive disagree in size on channel {op.channel!r}: {op.name!r} of rank {rank} is {op.nbytes:g} "
            f"bytes, {mail.who} is {mail.nbytes:g} bytes; both ends must name the same size"
        )
    return mail


def _post_send(run: _Run, record: StreamRecord, step: Step, action: Action) -> Event | None:
    """Post a message; for a blocking one that nobody waits for yet, an event that fires when somebody does."""
    mail = _mail(run, step, action, record)
    assert isinstance(step.op, Send)
    if not step.op.blocking or mail.posted:
        return None
    mail.waiter = Event(run.env)
    record.state = (step, mail)
    return mail.waiter


def _departed(run: _Run, step: Step, action: Action, start: float) -> None:
    run.mail[step.key, action].start = start


def _arrived(run: _Run, step: Step, action: Action) -> None:
    mail = run.mail[step.key, action]
    mail.arrived = True
    if mail.posted:
        del run.mail[step.key, action]
        if mail.waiter is not None:
            mail.waiter.succeed()


def _post_recv(
    run: _Run, record: StreamRecord, step: Step, action: Action
) -> tuple["_Mail", Event | None]:
    """Post a receive; the event fires when the message is there (none: it is there already)."""
    mail = _mail(run, step, action, record)
    mail.posted = True
    if mail.arrived:
        del run.mail[step.key, action]
        return mail, None
    if mail.waiter is not None:
        mail.waiter.succeed()
    mail.waiter = Event(run.env)
    record.state = (step, mail)
    return mail, mail.waiter


def _change_link(run: _Run, change: LinkChange) -> Process:
    """Change a link's bandwidth when its time has come."""
    yield Timeout(run.env, change.time)
    resource = run.compiled.resource_of_link.get(change.link)
    if resource is not None:
        retime(run.env.now, run.shared.set_capacity(resource, change.bandwidth))


def simulate(
    program: Program,
    cluster: Cluster,
    *,
    placement: np.ndarray | None = None,
    unfolded: bool = False,
    launch: float = 0.0,
    changes: Sequence[LinkChange] = (),
    merged: bool = False,
) -> Timeline:
    """Replay a program on a cluster and return what happened when.

    ``placement`` (num_ranks,): the device of each rank (default: rank r on device r). ``unfolded`` plays every rank on
    its own. ``launch``: host seconds a kernel. ``changes``: links whose bandwidth changes on the way.
    ``merged`` plays runs of ops that nothing interrupts as one step each (`sim.chain`): the same times, fewer events.
    `DeadlockError` if ranks wait for each other for ever; `ProgramError` if they disagree.
    """
    device_of = _placement(program, cluster, placement)
    changed = _changed_links(cluster, changes)
    folding = fold(program, cluster, device_of, unfolded=unfolded, marked_links=changed)
    compiled = compile_program(
        program, folding, cluster, device_of, launch=launch, keep_links=changed
    )
    if merged:
        merge(compiled)
    run = _Run(compiled, folding)
    records = [
        StreamRecord(index=i, rank_class=s.rank_class, name=s.name, computes=s.computes)
        for i, s in enumerate(compiled.streams)
    ]
    run.running = len(records)
    for record, stream in zip(records, compiled.streams, strict=True):
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
    return Timeline(
        program=program,
        cluster=cluster,
        device_of=device_of,
        folding=folding,
        streams=records,
        communications=compiled.communications,
        kernel_seconds=compiled.kernel_seconds,
        step_time=max((record.end for record in records), default=0.0),
        num_events=next(run.env._eid),
    )


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
            f"the program has {program.num_ranks} ranks on devices up to {int(device_of.max())}; cluster {cluster.name} "
            f"has {cluster.num_devices} devices; use a larger cluster or fewer ranks"
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
            case _Semaphore():
                reason = f"waits for {wanted.name!r}, which nothing that can still run will signal"
            case _Meeting():
                peers = [int(run.folding.representative[c]) for c in step.classes]
                reason = f"waits for the other members of its {op.axis!r} group (ranks of class {peers})"
            case _:
                other = step.classes[1] if isinstance(op, Send) else step.classes[0]
                peer = int(run.folding.representative[other])
                end = "receive" if isinstance(op, Send) else "send"
                reason = f"waits for rank {peer} to {end} on channel {op.channel!r}"
        name = getattr(op, "name", type(op).__name__.lower())
        lines.append(f"  rank {rank}, stream {record.name!r}: {name!r} {reason}")
    return "deadlock: nothing can run any more\n" + "\n".join(lines)
