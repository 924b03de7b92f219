"""The engine: SimPy processes play a program on a cluster. Here, and only here, is time.

Every (rank class, stream) is one process, `run_stream`: it takes the ops of its stream in order, waits for what each
needs, lets it run and notes when it started and ended. A running op is an *activity*: kernels run on the device,
transfers on the network's shared resources; when another activity starts or ends, the rates of those it shares with
change, and the pending timer is replaced by one at the new time. A kernel or transfer that shares nothing is a single SimPy
timeout.

A process waits on a `Timeout` or an `Event`; to move its end, the callbacks of the pending timer move to another.
"""

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from simpy import Environment, Event, Timeout

from sim.cluster import Cluster
from sim.compile import (
    COLLECTIVE, COMPUTE, MEMORY, RECV, SEND, SYNC, Compiled, Step, compile_program,
)  # fmt: skip
from sim.errors import DeadlockError, ProgramError
from sim.fold import Folding, fold
from sim.network.shared import Flow, Shared
from sim.program import Action, Allocate, Collective, Free, Program, Recv, Send
from sim.timeline import HOST, Cause, StreamRecord, Timeline

Process = Generator[Event, Any, None]


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


class _Kernel:
    """A kernel that runs now on a device whose speed can change under it."""

    __slots__ = ("left", "memory_bound", "rate", "since", "timer")

    def __init__(self, step: Step, now: float) -> None:
        self.left = step.alone
        self.memory_bound = step.memory_bound
        self.since = now
        self.rate = 1.0
        self.timer: Timeout


class _Device:
    """One rank class's device: the kernels on it, and what communication takes of its SMs and memory bandwidth."""

    __slots__ = ("env", "host", "kernels", "memory_taken", "overlapping", "sm_taken")

    def __init__(self, env: Environment, overlapping: bool) -> None:
        self.env = env
        self.overlapping = overlapping
        self.host = 0.0
        self.kernels: list[_Kernel] = []
        self.sm_taken = 0.0
        self.memory_taken = 0.0

    def rate(self, memory_bound: bool) -> float:
        taken = self.memory_taken if memory_bound else self.sm_taken
        return max(1.0 - taken, 0.05) / max(len(self.kernels), 1)

    def start(self, step: Step) -> _Kernel:
        """Put a kernel on the device; its timer fires when it is done."""
        kernel = _Kernel(step, self.env.now)
        self.kernels.append(kernel)
        kernel.rate = self.rate(kernel.memory_bound)
        kernel.timer = Timeout(self.env, kernel.left / kernel.rate)
        if len(self.kernels) > 1:
            self.change()
        return kernel

    def stop(self, kernel: _Kernel) -> None:
        self.kernels.remove(kernel)
        if self.kernels:
            self.change()

    def take(self, sm: float, memory: float) -> None:
        """Communication takes (or, negative, gives back) a share of the device."""
        self.sm_taken += sm
        self.memory_taken += memory
        if self.kernels:
            self.change()

    def change(self) -> None:
        """Let every running kernel go on at its new rate."""
        now = self.env.now
        for kernel in self.kernels:
            rate = self.rate(kernel.memory_bound)
            if rate != kernel.rate:
                kernel.left -= (now - kernel.since) * kernel.rate
                kernel.since, kernel.rate = now, rate
                kernel.timer = _move(kernel.timer, max(kernel.left, 0.0) / rate)


def _move(timer: Timeout, delay: float) -> Timeout:
    """Let what waits on a timer wait ``delay`` from now instead; the old timer fires for nobody."""
    moved = Timeout(timer.env, delay)
    assert moved.callbacks is not None and timer.callbacks is not None
    moved.callbacks.extend(timer.callbacks)
    timer.callbacks.clear()
    return moved


class _Transfer:
    """A collective or message that runs now: its legs one after another, each a latency, then bytes at a shared rate."""

    __slots__ = ("done", "flow", "left", "leg", "run", "since", "start", "step", "timer")

    def __init__(self, run: "_Run", step: Step) -> None:
        self.run = run
        self.step = step
        self.done = Event(run.env)
        self.start = run.env.now
        self.leg = -1
        self.flow: Flow | None = None
        self.left = self.since = 0.0
        self.timer: Timeout
        step.played += 1
        self._next(None)

    def _next(self, _: Event | None) -> None:
        """Begin the next leg, or end."""
        if self.leg >= 0:
            self._tax(-1.0)
        self.leg += 1
        if self.leg == len(self.step.legs):
            self.done.succeed(self)
            return
        self._tax(1.0)
        leg = self.step.legs[self.leg]
        if leg.latency > 0:
            self._after(leg.latency, self._flow)
        else:
            self._flow(None)

    def _flow(self, _: Event | None) -> None:
        leg = self.step.legs[self.leg]
        if not leg.nbytes:
            self._next(None)
            return
        self.flow = Flow(leg.ceiling, leg.weight, leg.uses)
        self.left, self.since = leg.nbytes, self.run.env.now
        self._after(leg.nbytes / leg.ceiling, self._landed)
        self.run.flows[self.flow] = (self, leg.ceiling)
        self.run.retime(self.run.shared.start(self.flow))

    def _landed(self, _: Event | None) -> None:
        assert self.flow is not None
        flow, self.flow = self.flow, None
        del self.run.flows[flow]
        self.run.retime(self.run.shared.stop(flow))
        self._next(None)

    def _after(self, delay: float, then: Any) -> None:
        self.timer = Timeout(self.run.env, delay)
        assert self.timer.callbacks is not None
        self.timer.callbacks.append(then)

    def _tax(self, sign: float) -> None:
        leg = self.step.legs[self.leg]
        if leg.sm_share or leg.memory_share:
            for rank_class in self.step.classes:
                self.run.devices[rank_class].take(sign * leg.sm_share, sign * leg.memory_share)


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
        self.env = Environment()
        self.folding = folding
        self.compiled = compiled
        self.shared = Shared(compiled.capacity)
        self.flows: dict[Flow, tuple[_Transfer, float]] = {}
        self.devices = [_Device(self.env, overlap) for overlap in compiled.overlapping]
        self.semaphores = [
            [_Semaphore(name, count) for name, count in zip(names, counts, strict=True)]
            for names, counts in compiled.semaphores
        ]
        self.meetings: dict[tuple[object, ...], _Meeting] = {}
        self.mail: dict[tuple[object, ...], "_Mail"] = {}
        self.finished = Event(self.env)
        self.running = 0

    def retime(self, flows: Iterable[Flow]) -> None:
        """Let flows whose rate changed go on at the new one."""
        now = self.env.now
        for flow in flows:
            transfer, rate = self.flows[flow]
            if flow.rate != rate:
                transfer.left -= (now - transfer.since) * rate
                transfer.since = now
                self.flows[flow] = (transfer, flow.rate)
                transfer.timer = _move(transfer.timer, max(transfer.left, 0.0) / flow.rate)


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
            if code == COMPUTE:
                if step.launch:
                    device.host += step.launch
                    if device.host > env.now:
                        record.gaps.append((env.now, device.host, HOST))
                        yield Timeout(env, device.host - env.now)
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
                posted = env.now
                if step.quick:
                    step.played += 1
                    start = posted
                    yield Timeout(env, step.alone)
                elif not step.legs:
                    start = posted
                else:
                    transfer = yield _meet(run, record, step, met)
                    start = transfer.start
                spans.append((step.op, action, posted, start, env.now))
            elif code == SEND:
                posted = env.now
                ready = _post_send(run, record, step, action)
                if ready is not None:
                    yield ready
                start = env.now
                transfer = _Transfer(run, step)
                _departed(run, step, action, start)
                yield transfer.done
                _arrived(run, step, action)
                spans.append((step.op, action, posted, start, env.now))
            elif code == RECV:
                posted = env.now
                mail, landed = _post_recv(run, record, step, action)
                if landed is not None:
                    yield landed
                spans.append((step.op, action, posted, max(mail.start, posted), env.now))
            elif code == MEMORY:
                op = step.op
                assert isinstance(op, Allocate | Free)
                record.memory.append(
                    (env.now, op.category, op.nbytes if isinstance(op, Allocate) else -op.nbytes)
                )
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


def _meet(run: _Run, record: StreamRecord, step: Step, met: dict[tuple[str, int], int]) -> Event:
    """Join the collective; what is returned fires when it is over, with the transfer."""
    if step.parties == 1:
        return _Transfer(run, step).done
    turn = met[step.key] = met.get(step.key, -1) + 1
    where = (step.key, record.name, turn)
    meeting = run.meetings.get(where)
    if meeting is None:
        meeting = run.meetings[where] = _Meeting(run.env, step)
    _agree(run, record, step, meeting.first)
    meeting.arrived += 1
    if meeting.arrived == step.parties:
        del run.meetings[where]
        transfer = _Transfer(run, step)
        assert transfer.done.callbacks is not None
        transfer.done.callbacks.append(lambda done: meeting.event.succeed(done.value))
    else:
        record.state = (step, meeting)
    return meeting.event


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
        old = run.shared.capacity[resource]
        for flow in run.shared.users[resource]:
            flow.ceiling *= max(1.0, change.bandwidth / old)
        run.retime(run.shared.set_capacity(resource, change.bandwidth))


def simulate(
    program: Program,
    cluster: Cluster,
    *,
    placement: np.ndarray | None = None,
    unfolded: bool = False,
    launch: float = 0.0,
    changes: Sequence[LinkChange] = (),
) -> Timeline:
    """Replay a program on a cluster and return what happened when.

    ``placement`` (num_ranks,): the device of each rank (default: rank r on device r). ``unfolded`` plays every rank on
    its own. ``launch``: host seconds a kernel. ``changes``: links whose bandwidth changes on the way.
    `DeadlockError` if ranks wait for each other for ever; `ProgramError` if they disagree.
    """
    device_of = _placement(program, cluster, placement)
    changed = tuple(sorted({change.link for change in changes}))
    folding = fold(program, cluster, device_of, unfolded=unfolded, marked_links=changed)
    compiled = compile_program(
        program, folding, cluster, device_of, launch=launch, keep_links=changed
    )
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
