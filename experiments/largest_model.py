"""Largest model: the biggest of one family of shapes that fits a machine under a plan, found by replays."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import log

from experiments.simulation import FRAGMENTATION, Result
from experiments.study import replay
from workloads.counts import num_params
from workloads.model import Model
from workloads.models.families import gpt
from workloads.plan import Plan

HEAD_SIZE = 128
VOCAB, SEQ_LEN = 51200, 2048
MOST_LAYERS = 1 << 10
MASTER_SHARE = 1 / 3
"""Of the optimizer's 12 bytes a parameter, the 4 of the fp32 copy."""


@lru_cache(maxsize=1)
def rungs() -> tuple[Model, ...]:
    """Return GPT shapes by size: L layers and 128 L wide, and between two such the same width with more layers.

    >>> [(m.num_layers, m.hidden_size) for m in rungs()[:4]]
    [(1, 128), (1, 256), (2, 256), (2, 384)]
    """
    shapes = (
        (layers, heads)
        for heads in range(1, MOST_LAYERS)
        for layers in (heads - 1, heads)
        if layers
    )
    return tuple(_shape(layers, heads) for layers, heads in shapes)


def _shape(layers: int, heads: int) -> Model:
    traits = gpt(
        f"gpt-{layers}x{heads * HEAD_SIZE}",
        layers,
        heads * HEAD_SIZE,
        heads,
        VOCAB,
        tied_embeddings=False,
    )
    return Model(**traits)


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest model that fits, and its peak: live bytes, and those of weights, gradients and optimizer."""

    model: Model
    live_bytes: float
    state_bytes: float

    @property
    def num_params(self) -> int:
        """Its parameters."""
        return num_params(self.model)


def largest_model(
    preset: str, num_devices: int, zero: int, guess: float, *, master: bool = True
) -> Largest:
    """Return the largest rung that fits ``num_devices`` data-parallel devices of a cluster under a ZeRO stage.

    One sequence of 2,048 a device, full recompute, bf16 weights and gradients, 12 bytes of optimizer state a
    parameter (8 without the fp32 ``master`` copy: its bytes, which stand all through the step, are taken off).
    ``guess``: parameters to start the search from.
    """

    def fullest(rung: int) -> tuple[float, float, float]:
        if rung not in known:
            plan = Plan(
                dp=num_devices,
                zero=zero,
                global_batch=num_devices,
                seq_len=SEQ_LEN,
                recompute="full",
                dtype="fp16",
                software="megatron-2021",
            )
            known[rung] = _peak(replay(rungs()[rung], preset, num_devices, plan), master)
        return known[rung]

    def used(rung: int) -> float:
        return fullest(rung)[2]

    known: dict[int, tuple[float, float, float]] = {}
    rung = last_within(used, _start(guess), len(rungs()))
    live, states, _ = fullest(rung)
    return Largest(rungs()[rung], live, states)


def _peak(result: Result, master: bool) -> tuple[float, float, float]:
    """Live bytes of the fullest rank, those of its states, and the driver's bytes over the device's capacity."""
    peak = max(result.peaks, key=lambda peak: peak.nbytes)
    states = sum(peak.breakdown.get(part, 0.0) for part in ("parameters", "gradients", "optimizer"))
    copy = 0.0 if master else MASTER_SHARE * peak.breakdown.get("optimizer", 0.0)
    used = result.driver_bytes(peak) - copy * (1.0 + FRAGMENTATION)
    return peak.nbytes - copy, states - copy, used / result.device.memory_bytes


def _start(params: float) -> int:
    """The rung of about so many parameters: 12 L (128 L)^2 for L layers."""
    layers = float((params / (12.0 * HEAD_SIZE**2)) ** (1.0 / 3.0))
    return max(0, min(len(rungs()) - 1, round(2 * layers)))


def last_within(used: Callable[[int], float], start: int, end: int) -> int:
    """Return the last number below ``end`` whose ``used``, which grows, is at most 1 (0 if none).

    Guesses by the power law through the two points next to 1, then closes in: four or five calls where it is one.

    >>> last_within(lambda n: (n / 37.5) ** 3, 30, 100), last_within(lambda n: n / 37.5, 90, 100)
    (37, 37)
    """
    low, high = 0, end
    power: float = 3.0
    at: int = min(max(start, 1), end - 1)
    last: tuple[int, float] | None = None
    while high - low > 1:
        value = used(at)
        if value <= 1.0:
            low = at
        else:
            high = at
        if last is not None and value > 0 and last[0] != at and last[1] != value:
            power = max(0.5, log(value / last[1]) / log(at / last[0]))
        last = (at, value)
        guess = int(at * float(value) ** (-1.0 / power))
        at = min(max(guess, low + 1), high - 1)
    return low
