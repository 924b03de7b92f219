"""Activities: what runs, and how long it still takes when what it shares changes.

A kernel shares its device with other kernels and with communication; a transfer shares links with other transfers. When
the rate of an activity changes, the callbacks of its pending timer move to a new timer at the new time.
"""

from collections.abc import Generator, Iterable, Sequence
from functools import partial
from typing import Any

from simpy import Environment, Event, Timeout

from sim.network.shared import Flow, Shared
from sim.steps import Leg, Step
from sim.turns import Transfers, Turn

Process = Generator[Event, Any, None]
_LEAST = 0.05
"""Share of a device that communication cannot take from kernels."""


def move(timer: Timeout, delay: float) -> Timeout:
    """Let what waits on a timer wait ``delay`` from now instead; the old timer fires for nobody."""
    moved = Timeout(timer.env, max(delay, 0.0))
    assert moved.callbacks is not None
    assert timer.callbacks is not None
    moved.callbacks.extend(timer.callbacks)
    timer.callbacks.clear()
    return moved


class Kernel:
    """A kernel (or a chain of them) that runs now on a device whose speed can change under it."""

    __slots__ = ("at", "left", "pieces", "rates", "since", "step", "timer")

    def __init__(self, step: Step, now: float, rates: tuple[float, float, float]) -> None:
        self.step = step
        self.pieces = step.pieces or (step,)
        self.at = 0
        self.left = self.pieces[0].alone
        self.since = now
        self.rates = rates
        self.timer: Timeout

    def seconds(self) -> float:
        """Seconds it still takes at its present rates."""
        sms, bandwidth, nothing = self.step.rest[self.at] if self.step.rest else (0.0, 0.0, 0.0)
        r = self.rates
        return (
            self.left / r[self.pieces[self.at].kind]
            + sms / r[0]
            + bandwidth / r[1]
            + nothing / r[2]
        )

    def advance(self, now: float) -> None:
        """Work off the time since the last change."""
        elapsed = now - self.since
        self.since = now
        while self.at < len(self.pieces):
            rate = self.rates[self.pieces[self.at].kind]
            if elapsed * rate <= self.left or self.at == len(self.pieces) - 1:
                self.left = max(self.left - elapsed * rate, 0.0)
                return
            elapsed -= self.left / rate
            self.at += 1
            self.left = self.pieces[self.at].alone


class DeviceState:
    """One rank class's device: the kernels on it, and what communication takes of its SMs and memory bandwidth."""

    __slots__ = ("env", "host", "kernels", "memory_taken", "overlapping", "sm_taken")

    def __init__(self, env: Environment, overlapping: bool) -> None:
        self.env = env
        self.overlapping = overlapping
        self.host = 0.0
        self.kernels: list[Kernel] = []
        self.sm_taken = 0.0
        self.memory_taken = 0.0

    def _rates(self) -> tuple[float, float, float]:
        """Speeds of what is bound by SMs, by bandwidth, by neither."""
        share = max(len(self.kernels), 1)
        return (
            max(1.0 - self.sm_taken, _LEAST) / share,
            max(1.0 - self.memory_taken, _LEAST) / share,
            1.0,
        )

    def start(self, step: Step) -> Kernel:
        """Put a kernel on the device; its timer fires when it is done."""
        kernel = Kernel(step, self.env.now, (1.0, 1.0, 1.0))
        self.kernels.append(kernel)
        kernel.rates = self._rates()
        kernel.timer = Timeout(self.env, kernel.seconds())
        if len(self.kernels) > 1:
            self._change()
        return kernel

    def stop(self, kernel: Kernel) -> None:
        """Take a kernel that is done off the device."""
        self.kernels.remove(kernel)
        if self.kernels:
            self._change()

    def take(self, sm: float, memory: float) -> None:
        """Communication takes (or, negative, gives back) a share of the device."""
        self.sm_taken += sm
        self.memory_taken += memory
        if self.kernels:
            self._change()

    def _change(self) -> None:
        """Let every running kernel go on at its new rate."""
        now, rates = self.env.now, self._rates()
        for kernel in self.kernels:
            if rates != kernel.rates:
                kernel.advance(now)
                kernel.rates = rates
                kernel.timer = move(kernel.timer, kernel.seconds())


def play(env: Environment, shared: Shared, devices: list[DeviceState], step: Step) -> Process:
    """Play a collective or message: its legs one after another, each a latency, then bytes at a shared rate.

    One timer a leg. A leg is on its links when its latency is over; one that meets another there has a second timer.
    """
    step.played += 1
    for number, leg in enumerate(step.legs):
        taxed = leg.sm_share or leg.memory_share
        if taxed:
            for rank_class in step.classes:
                devices[rank_class].take(leg.sm_share, leg.memory_share)
        if step.turns:
            yield from _play_turns(env, shared, step.turns[number])
        elif leg.nbytes:
            yield from _transfer(env, shared, leg, leg.latency)
        elif leg.latency:
            yield Timeout(env, leg.latency)
        if taxed:
            for rank_class in step.classes:
                devices[rank_class].take(-leg.sm_share, -leg.memory_share)


def _transfer(env: Environment, shared: Shared, moved: Leg | Transfers, latency: float) -> Process:
    """Let bytes travel: seconds of latency, then at the rate they get."""
    flow = Flow(moved.ceiling, moved.weight, moved.uses)
    flow.left, flow.since = moved.nbytes, env.now + latency
    touched = shared.start(flow, env.now)
    flow.speed = flow.rate
    flow.timer = Timeout(env, latency + flow.left / flow.rate)
    if len(touched) > 1:
        retime(env.now, touched)
    yield flow.timer
    retime(env.now, shared.stop(flow))


def _play_turns(env: Environment, shared: Shared, turns: Sequence[Turn]) -> Process:
    """Play rounds one after another: a round has ended when the last of its transfers has."""
    for turn in turns:
        for _ in range(turn.repeat):
            if len(turn.transfers) == 1:
                yield from _transfer(env, shared, turn.transfers[0], turn.latency)
                continue
            if turn.latency > 0:
                yield Timeout(env, turn.latency)
            if turn.transfers:
                yield _together(env, shared, turn.transfers)


def _together(env: Environment, shared: Shared, transfers: Sequence[Transfers]) -> Event:
    """Start transfers at once; return the event of the last one's end."""
    now, done = env.now, Event(env)
    flows = [Flow(moved.ceiling, moved.weight, moved.uses) for moved in transfers]
    running = set(flows)

    def end(flow: Flow, _: Event) -> None:
        running.discard(flow)
        retime(env.now, shared.stop(flow))
        if not running:
            done.succeed()

    touched = shared.start_all(flows, now)
    for flow, moved in zip(flows, transfers, strict=True):
        flow.left, flow.since, flow.speed = moved.nbytes, now, flow.rate
        flow.timer = Timeout(env, flow.left / flow.rate)
        flow.timer.callbacks.append(partial(end, flow))
    retime(now, touched)
    return done


def wake(env: Environment, shared: Shared, flow: Flow) -> None:
    """Let a flow join its links when its latency is over."""
    timer = Timeout(env, max(flow.since - env.now, 0.0))
    assert timer.callbacks is not None
    timer.callbacks.append(lambda _: retime(env.now, shared.join(flow)))


def retime(now: float, flows: Iterable[Flow]) -> None:
    """Let flows whose rate changed go on at the new one."""
    for flow in flows:
        if flow.rate != flow.speed:
            if now > flow.since:
                flow.left = max(flow.left - (now - flow.since) * flow.speed, 0.0)
                flow.since = now
            flow.speed = flow.rate
            flow.timer = move(flow.timer, (flow.since - now) + flow.left / flow.rate)
