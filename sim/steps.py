"""Steps: ops with their seconds and resources, ready to be played by the engine."""

from collections.abc import Mapping
from dataclasses import dataclass

from sim.collectives.phase import CollectivePlan, Phase
from sim.network.fair_share import Use
from sim.program import Action, Op
from sim.turns import Turn
from sim.units import us

COMPUTE, COLLECTIVE, SEND, RECV, MEMORY, SYNC, WAIT, SIGNAL, CHAIN = range(9)
SMS, BANDWIDTH, NOTHING = range(3)
BRIEF = 0.1 * us
"""A transfer this short is all latency: it counts as using no link."""


class Leg:
    """One phase ready to play: seconds, bytes, ceiling, fairness weight, resources, shares of the device.

    ``brief``: so short that it counts as using no link, whoever else runs.
    """

    __slots__ = (
        "brief",
        "ceiling",
        "latency",
        "memory_share",
        "nbytes",
        "phase",
        "sm_share",
        "uses",
        "weight",
    )

    def __init__(self, phase: Phase, reserved: float = 0.0) -> None:
        self.phase = phase
        self.latency = phase.latency
        self.nbytes = phase.nbytes
        own = phase.own or phase.ceiling
        self.brief = phase.nbytes <= own * BRIEF
        self.ceiling = own if self.brief else phase.ceiling
        self.weight = phase.weight
        self.sm_share = max(phase.sm_share - reserved, 0.0)
        self.memory_share = phase.memory_share
        self.uses: tuple[Use, ...] = ()


class Step:
    """One op of one rank class, ready to play.

    ``kind`` says what slows it: `SMS` or `BANDWIDTH` taken by communication, or `NOTHING`. ``pieces``: the steps of a
    chain (see `sim.chain`), ``need``: seconds the host must be ahead so that none of them waits for it.
    ``alone`` seconds on an idle machine; ``key`` names the meeting (group class or pair class); ``parties`` how many
    rank classes meet; ``quick``: nothing else can ever touch what it uses; ``played`` counts starts.
    ``turns``: the rounds of each leg, where those are played.
    """

    __slots__ = (
        "alone", "classes", "code", "key", "kind", "launch", "legs", "need", "op", "parties", "pieces", "plan",
        "played", "quick", "rest", "signals", "starts", "turns", "waits",
    )  # fmt: skip

    def __init__(self, code: int, op: Op) -> None:
        self.code = code
        self.op = op
        self.alone = 0.0
        self.launch = 0.0
        self.need = 0.0
        self.kind = NOTHING
        self.pieces: tuple[Step, ...] = ()
        self.rest: tuple[tuple[float, float, float], ...] = ()
        self.key: tuple[str, int] = ("", 0)
        self.parties = 1
        self.classes: tuple[int, ...] = ()
        self.plan: CollectivePlan | None = None
        self.legs: tuple[Leg, ...] = ()
        self.turns: tuple[tuple[Turn, ...], ...] = ()
        self.quick = False
        self.waits: tuple[int, ...] = ()
        self.signals: tuple[int, ...] = ()
        self.starts: tuple[int, ...] = ()
        self.played = 0


Steps = list[Step]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledStream:
    """What one stream of one rank class plays: (action, steps) in order."""

    rank_class: int
    name: str
    segments: list[tuple[Action, Steps]]
    computes: bool


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """All streams; semaphores by class (names and initial counts); resource capacities; kept links."""

    streams: list[CompiledStream]
    semaphores: list[tuple[tuple[str, ...], tuple[int, ...]]]
    capacity: list[float]
    resource_of_link: Mapping[int, int]
    communications: list[Step]
    overlapping: tuple[bool, ...]
    kernel_seconds: Mapping[tuple[int, int], float]
    slower: float = 1.0
