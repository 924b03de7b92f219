"""Plan bound: what a plan needs at least, without a replay: seconds of the busiest stage, bytes of the fullest.

A rank computes all its microbatches, and blocks on the tensor-parallel collectives between its kernels, whatever else
happens; a microbatch passes all stages forward and back; the last rank starts when the first microbatch has come. The
bound takes all of that from the same costs as the replay.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from experiments.simulation import FRAGMENTATION, outside_bytes
from sim.cluster import Cluster
from sim.collectives import Communicator
from sim.device import Device
from sim.errors import SimError
from sim.kernels import kernel_time, steady
from sim.kernels.shapes import Kernel
from sim.program import Collective, Compute, Op
from workloads.chunk import Chunk, Known, Variant
from workloads.layers import Sizes
from workloads.layers.part import COMPUTE
from workloads.layout import StageContent, stage_contents
from workloads.model import Model
from workloads.plan import Plan
from workloads.schedules import SCHEDULES
from workloads.sharding import Sharding
from workloads.states import held_states

WARM = ("1f1b", "interleaved", "gpipe", "naive")
"""Schedules whose first backward waits for a microbatch to pass all stages and come back."""


class Cost(NamedTuple):
    """Seconds of a chunk's forward, input gradient, and forward with fused backward; bytes it saves between them."""

    forward: float
    backward: float
    both: float
    saved: float


@dataclass
class Bounds:
    """Bounds of many plans of one model on one machine; costs are kept between them."""

    model: Model
    cluster: Cluster
    kernels: dict[tuple[Kernel, int], float] = field(default_factory=dict)
    transfers: dict[tuple[int, str, float], float] = field(default_factory=dict)
    groups: dict[int, Communicator] = field(default_factory=dict)
    passes: dict[tuple[Plan, StageContent], Cost] = field(default_factory=dict)
    parts: dict[Plan, Known] = field(default_factory=dict)

    @property
    def device(self) -> Device:
        """The fastest device, as a long run finds it."""
        return steady(max(self.cluster.device_kinds, key=lambda device: max(device.peak.values())))

    def bound(self, plan: Plan) -> tuple[float, float]:
        """Return (seconds, bytes) that the plan needs at least, step and fullest rank."""
        kind = SCHEDULES[plan.schedule]
        placement = kind.placement(
            plan.pp, plan.chunks if kind.any_chunks or plan.chunks > 1 else None
        )
        contents, _ = stage_contents(self.model, plan, placement.num_stages)
        shape = _shape(plan)
        sizes = Sizes(self.model, shape)
        known = self.parts.setdefault(shape, {})
        chunks = [Chunk(sizes, content, known=known) for content in contents]
        cost = [self._passes(shape, chunk) for chunk in chunks]
        ranks = [[placement.stage(r, c) for c in range(placement.chunks)] for r in range(plan.pp)]
        share = 2 if placement.kind == "bidir" else 1
        times = [sum(cost[s].both for s in stages) / share for stages in ranks]
        chain = sum(c.forward + c.backward for c in cost) / share
        before = sum(c.forward for c in cost[: plan.pp - 1]) if share == 1 else 0.0
        busiest = plan.num_microbatches * max(times)
        if plan.schedule in WARM:
            busiest += (plan.pp - 1) / placement.chunks * min(times)
        seconds = max(busiest, chain, before + plan.num_microbatches * times[-1])
        own = Sizes(self.model, plan)
        peaks = peak_microbatches(plan.schedule, plan.pp, placement.chunks, plan.num_microbatches)
        fullest = 0.0
        saved_of = [peaks[r] * sum(cost[s].saved for s in ranks[r]) / share for r in range(plan.pp)]
        for rank in {0, plan.pp - 1, max(range(plan.pp), key=saved_of.__getitem__)}:
            held = [replace(chunks[s], sizes=own) for s in ranks[rank]]
            states = sum(held_states(own, held, Sharding(plan)).values()) + _gathered(own, held)
            fullest = max(fullest, states + saved_of[rank])
        outside = outside_bytes(plan, _communicators(plan))
        return seconds, fullest * (1.0 + FRAGMENTATION) + outside

    def fits(self, nbytes: float) -> bool:
        """Whether a plan that needs at least so many bytes may fit (the borderline counts)."""
        smallest = min(device.memory_bytes for device in self.cluster.device_kinds)
        return nbytes * (1.0 - FRAGMENTATION) <= smallest

    def _passes(self, shape: Plan, chunk: Chunk) -> Cost:
        """Return what the passes of a chunk cost."""
        key = (shape, chunk.content)
        if key not in self.passes:
            plain = Variant()
            lanes = (chunk.forward(plain), chunk.input_gradient(plain), chunk.backward(plain))
            forward, backward, fused = (
                self._seconds(lane.get(COMPUTE, ()), shape.tp) for lane in lanes
            )
            saved = sum(chunk.saved(index) for index in range(len(chunk.units)))
            self.passes[key] = Cost(forward, min(backward, fused), forward + fused, saved)
        return self.passes[key]

    def _seconds(self, ops: Iterable[Op], tp: int) -> float:
        total = 0.0
        for op in ops:
            if isinstance(op, Compute):
                known = (op.kernel, 0)
                if known not in self.kernels:
                    self.kernels[known] = kernel_time(op.kernel, self.device)
                total += self.kernels[known]
            elif isinstance(op, Collective) and op.axis == "tp":
                total += self._transfer(op, tp)
        return total

    def _transfer(self, op: Collective, tp: int) -> float:
        key = (tp, op.kind, op.nbytes)
        if key not in self.transfers:
            if tp not in self.groups:
                self.groups[tp] = Communicator(self.cluster, np.arange(tp)[None, :])
            try:
                self.transfers[key] = self.groups[tp].plan(op.kind, op.nbytes, op.algorithm).alone
            except SimError:
                self.transfers[key] = 0.0
        return self.transfers[key]


def _gathered(sizes: Sizes, chunks: list[Chunk]) -> float:
    """Bytes of parameters that stay gathered through the step (ZeRO-3 without resharding)."""
    plan = sizes.plan
    if plan.zero != 3 or plan.reshard or plan.dp * plan.cp == 1:
        return 0.0
    return sum((u.dense_weights + u.expert_weights) * sizes.value for c in chunks for u in c.units)


def _communicators(plan: Plan) -> int:
    """How many communicators a rank has at least: tp, cp, dp, the model's, two neighbours of the pipeline."""
    axes = (plan.tp > 1, plan.cp > 1, plan.dp * plan.cp > 1, plan.tp * plan.pp > 1)
    return sum(axes) + 2 * (plan.pp > 1)


@cache
def peak_microbatches(name: str, stages: int, chunks: int, microbatches: int) -> tuple[float, ...]:
    """Return the most microbatches each rank holds, in its whole share; a long step holds no more than one of 4 p."""
    kind, count = SCHEDULES[name], min(microbatches, 4 * stages)
    given = chunks if kind.any_chunks else None
    orders = kind.generate(num_stages=stages, num_microbatches=count, chunks=given)
    placement = kind.placement(stages, given)
    peaks = []
    for order in orders:
        held = most = 0
        for entry in order:
            held += sum(token.kind == "F" for token in entry)
            most = max(most, held)
            held -= sum(token.kind in ("B", "BW") for token in entry)
        peaks.append(most * placement.share)
    return tuple(peaks)


def _shape(plan: Plan) -> Plan:
    """Return the plan with everything that changes no pass of a chunk set alike, so that costs are shared."""
    return replace(
        plan, schedule="1f1b", chunks=1, zero=0, pp=plan.pp, layout=(), group_size=0, overlap_ep="auto", shard=0,
        order=("tp", "cp", "dp", "pp"),
    )  # fmt: skip
