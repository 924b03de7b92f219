"""Meetings: where streams wait for each other: semaphores inside a rank, collectives and messages between ranks."""

import numpy as np
from simpy import Environment, Event

from sim.errors import ProgramError
from sim.program import Action, Collective, Recv, Send
from sim.steps import Step
from sim.timeline import Cause, StreamRecord


class Semaphore:
    """A counter one stream waits on; the cause handed over is the span that signalled."""

    __slots__ = ("count", "name", "waiter")

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.count = count
        self.waiter: Event | None = None

    def signal(self, cause: Cause) -> None:
        """Add one, or wake who waits."""
        if self.waiter is None:
            self.count += 1
        else:
            waiter, self.waiter = self.waiter, None
            waiter.succeed(cause)


class Meeting:
    """A collective for which not all rank classes have arrived."""

    __slots__ = ("arrived", "event", "first")

    def __init__(self, env: Environment, first: Step) -> None:
        self.event = Event(env)
        self.arrived = 0
        self.first = first


class Meetings:
    """Collectives of several rank classes, matched by group class, stream and turn."""

    def __init__(self, env: Environment, rank_of: np.ndarray) -> None:
        self.env, self.rank_of = env, rank_of
        self.open: dict[tuple[object, ...], Meeting] = {}
        self.turns: dict[tuple[object, ...], int] = {}

    def join(self, record: StreamRecord, step: Step) -> tuple[Meeting, bool]:
        """Arrive at the next collective of the group; say whether all are there now."""
        mine = (step.key, record.index)
        turn = self.turns[mine] = self.turns.get(mine, -1) + 1
        where = (step.key, record.name, turn)
        meeting = self.open.get(where)
        if meeting is None:
            meeting = self.open[where] = Meeting(self.env, step)
        self._agree(record, step, meeting.first)
        meeting.arrived += 1
        everybody = meeting.arrived == step.parties
        if everybody:
            del self.open[where]
        return meeting, everybody

    def _agree(self, record: StreamRecord, step: Step, first: Step) -> None:
        mine, other = step.op, first.op
        assert isinstance(mine, Collective)
        assert isinstance(other, Collective)
        if (mine.kind, mine.nbytes) != (other.kind, other.nbytes):
            raise ProgramError(
                f"ranks of one group disagree on axis {mine.axis!r}, stream {record.name!r}: rank "
                f"{self.rank_of[record.rank_class]} runs {mine.kind} {mine.name!r} of {mine.nbytes:g} bytes where "
                f"another runs {other.kind} {other.name!r} of {other.nbytes:g} bytes; every member must issue the same "
                f"collectives in the same order"
            )


class Message:
    """A message between two rank classes: what the sender and the receiver have done so far."""

    __slots__ = ("arrived", "nbytes", "posted", "start", "waiter", "who")

    def __init__(self, nbytes: float, who: str) -> None:
        self.nbytes = nbytes
        self.who = who
        self.start = -1.0
        self.arrived = False
        self.posted = False
        self.waiter: Event | None = None


class Mail:
    """Messages on their way, matched by pair class and action."""

    def __init__(self, env: Environment, rank_of: np.ndarray) -> None:
        self.env, self.rank_of = env, rank_of
        self.open: dict[tuple[object, ...], Message] = {}

    def send(
        self, record: StreamRecord, step: Step, action: Action
    ) -> tuple[Message, Event | None]:
        """Post a send; for a blocking one that nobody waits for yet, an event that fires when somebody does."""
        message = self._find(record, step, action)
        assert isinstance(step.op, Send)
        if not step.op.blocking or message.posted:
            return message, None
        message.waiter = Event(self.env)
        return message, message.waiter

    def arrive(self, step: Step, action: Action) -> None:
        """The message has landed: wake the receiver if it waits."""
        message = self.open[step.key, action]
        message.arrived = True
        if message.posted:
            del self.open[step.key, action]
            if message.waiter is not None:
                message.waiter.succeed()

    def receive(
        self, record: StreamRecord, step: Step, action: Action
    ) -> tuple[Message, Event | None]:
        """Post a receive; the event fires when the message is there (none: it is there already)."""
        message = self._find(record, step, action)
        message.posted = True
        if message.arrived:
            del self.open[step.key, action]
            return message, None
        if message.waiter is not None:
            message.waiter.succeed()
        message.waiter = Event(self.env)
        return message, message.waiter

    def _find(self, record: StreamRecord, step: Step, action: Action) -> Message:
        op = step.op
        assert isinstance(op, Send | Recv)
        rank = self.rank_of[record.rank_class]
        message = self.open.get((step.key, action))
        if message is None:
            message = self.open[step.key, action] = Message(
                op.nbytes, f"{op.name!r} of rank {rank}"
            )
        elif message.nbytes != op.nbytes:
            raise ProgramError(
                f"send and receive disagree in size on channel {op.channel!r}: {op.name!r} of rank {rank} is "
                f"{op.nbytes:g} bytes, {message.who} is {message.nbytes:g} bytes; both ends must name the same size"
            )
        return message
