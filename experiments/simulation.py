"""Simulation: one run, from its configuration to a timeline and the numbers read off it."""

from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

from experiments.garbage import uncollected
from experiments.machine import MOST_DEVICES, build_machine
from experiments.runfile import RunConfig
from sim.cluster import Cluster
from sim.device import Device
from sim.engine import simulate
from sim.errors import PlanError
from sim.ledger import ledgers, mean_ledger, stage_ledgers
from sim.memory import Peak, memory_peak
from sim.metrics import (
    bubble_fraction,
    bubble_overhead,
    exposed_communication,
    flops_per_device,
    hfu,
    mfu,
    overlap_fraction,
    tokens_per_s,
    utilization,
)
from sim.pairs import pair_exposure
from sim.program import num_ops
from sim.timeline import Timeline
from sim.units import TERA, GiB, KiB, MiB
from workloads.counts import num_active_params, num_params
from workloads.lower import lower
from workloads.plan import Plan
from workloads.routing import UNIFORM
from workloads.software import software

CONTEXT_BYTES = 0.75 * GiB
"""Device memory of a process before the framework allocates any: CUDA context, kernels' code, library handles.

Read by nvidia-smi for an idle PyTorch process on A100 and H100; not fitted."""
EAGER_CONTEXT_BYTES = 1343 * MiB
"""The same where every kernel's code is loaded at the start (PyTorch before 1.13, CUDA before 11.7): what Hugging
Face's page on the anatomy of training memory reads after one small tensor; not fitted."""
COMMUNICATOR_BYTES = 24 * 2 * (4 * MiB + 4800 * KiB + 512 * KiB)
"""Device memory of one communicator: 24 channels x two neighbours x the buffers of NCCL's three protocols, as its
``init.cc`` sizes them (Simple ``NCCL_BUFFSIZE`` 4 MiB; LL128 120 x 640 x 8 values of 8 bytes; LL 512 KiB). Reckoned,
not measured nor fitted: few channels are used between two ranks, trees have more neighbours than rings."""
FRAGMENTATION = 0.03
"""Share of live bytes an allocator holds on top (rounding, cached blocks); up to twice this is called borderline.

Fitted on the rows of torchtitan and DeepSpeed (reserved) and of BLOOM (driver), in-sample: BLOOM's grow by 1.03 +- 0.03
a live byte beside a constant, of which context and communicators are two thirds."""

JITTER = 0.01
"""Standard deviation of the speeds of devices of one kind (see `sim.jitter`). Of 0, 0.5, 1, 1.5 and 2 % the one that
fits the MosaicML and DGX Cloud runs of 64 GPUs and more best; the other sources alone would rather have 1.5 or 2 %
(`experiments.calibration.software`). The whole table was in view."""
MANY_OPS = 200_000
"""Ops of all scripts above which a replay merges runs of them."""
MOST_PASSES = 4_000_000
"""Passes of a layer (layers and stages x microbatches) above which a replay would take minutes."""


@dataclass(frozen=True)
class Result:
    """A replayed run: ``timeline``, and everything derived from it."""

    config: RunConfig
    timeline: Timeline
    wall_s: float

    @cached_property
    def parts(self) -> list[dict[str, float]]:
        """Ledger of each rank class."""
        return ledgers(self.timeline)

    @cached_property
    def mean(self) -> dict[str, float]:
        """Mean ledger."""
        return mean_ledger(self.timeline, self.parts)

    @cached_property
    def peaks(self) -> list[Peak]:
        """Memory peak of the fullest rank class at each place of the pipeline."""
        found: dict[int, Peak] = {}
        for rank_class in range(self.timeline.num_classes):
            place = self.timeline.place(rank_class)
            peak = memory_peak(self.timeline, rank_class)
            if place not in found or peak.nbytes > found[place].nbytes:
                found[place] = peak
        return [found[place] for place in sorted(found)]

    @property
    def device(self) -> Device:
        """The device with the least memory."""
        kinds = self.timeline.cluster.device_kinds
        return min(kinds, key=lambda device: device.memory_bytes)

    @cached_property
    def overhead_bytes(self) -> float:
        """Device memory outside the framework's allocator: context and communicators."""
        program = self.timeline.program
        axes = [axis for axis, members in program.groups.items() if members.shape[1] > 1]
        return outside_bytes(self.config.plan, len(axes) + len(program.peers))

    def reserved_bytes(self, peak: Peak) -> float:
        """Bytes the allocator has taken: those of each category's own peak, and what rounding and blocks leave."""
        return peak.apart * (1.0 + FRAGMENTATION)

    def driver_bytes(self, peak: Peak) -> float:
        """Bytes the driver reports for a peak: the allocator's, context and communicators."""
        return self.reserved_bytes(peak) + self.overhead_bytes

    def memory(self) -> list[dict[str, Any]]:
        """Peak and breakdown of each pipeline place, and whether it fits."""
        capacity = self.device.memory_bytes
        return [
            {
                "stage": place,
                "peak_bytes": peak.nbytes,
                "reserved_bytes": self.reserved_bytes(peak),
                "driver_bytes": self.driver_bytes(peak),
                "outside_bytes": self.overhead_bytes,
                "headroom_bytes": capacity - self.driver_bytes(peak),
                "peak_time_s": peak.time,
                "breakdown": peak.breakdown,
                "verdict": verdict(self.driver_bytes(peak), peak.nbytes, capacity),
            }
            for place, peak in enumerate(self.peaks)
        ]

    @cached_property
    def balance(self) -> dict[str, float]:
        """What even routing would save, by a replay of its own, where tokens go to experts unevenly."""
        if self.config.plan.routing == UNIFORM:
            return {}
        even = replace(self.config, plan=replace(self.config.plan, routing=UNIFORM))
        step = simulate_run(even, merged=True).timeline.step_time
        return {"balanced_step_time_s": step, "balance_saves_s": self.timeline.step_time - step}

    def summary(self) -> dict[str, Any]:
        """Return the answer of ``simulate --json`` but what it has to replay for: base units, fractions 0..1."""
        with uncollected():
            return self._summary()

    def _summary(self) -> dict[str, Any]:
        timeline, mean, model = self.timeline, self.mean, self.config.model
        pairs = pair_exposure(timeline)
        tokens = tokens_per_s(timeline)
        ranks = timeline.program.num_ranks
        fullest = max(self.peaks, key=lambda peak: peak.nbytes)
        return {
            "run": self.config.name,
            "step_time_s": timeline.step_time,
            "tokens_per_s": tokens,
            "tokens_per_s_per_device": tokens / ranks,
            "tflops_per_device": flops_per_device(timeline) / TERA,
            "mfu": mfu(timeline),
            "mfu_causal": mfu(timeline, "causal"),
            "hfu": hfu(timeline),
            "bubble_fraction": bubble_fraction(mean, timeline.step_time),
            "bubble_overhead": bubble_overhead(mean, timeline.step_time),
            "exposed_comm_s": exposed_communication(mean),
            "overlap_fraction": overlap_fraction(timeline, self.parts),
            "utilization": utilization(timeline),
            **({} if pairs is None else {"pair_exposed_fraction": pairs}),
            "num_params": num_params(model),
            "num_active_params": num_active_params(model),
            "ledger": {"mean": mean, "stages": stage_ledgers(timeline, self.parts)},
            "peak_memory_bytes": fullest.nbytes,
            "memory": self.memory(),
            "fits": all(stage["verdict"] != "does not fit" for stage in self.memory()),
            "largest_memory": sorted(fullest.breakdown, key=lambda c: -fullest.breakdown[c])[:3],
            "capacity_bytes": self.device.memory_bytes,
            "num_devices": ranks,
            "num_rank_classes": timeline.num_classes,
            "num_events": timeline.num_events,
            "num_spans": timeline.num_spans,
            "wall_s": self.wall_s,
            "assumptions": list(
                dict.fromkeys(
                    (
                        *self.config.assumptions,
                        *timeline.program.assumptions,
                        *timeline.cluster.assumptions,
                        *timeline.assumptions,
                    )
                )
            ),
        }


def outside_bytes(plan: Plan, communicators: int) -> float:
    """Bytes of a device outside the allocator: context, and communicators (the one of all ranks besides)."""
    lazy = software(plan.software).lazy_modules
    context = CONTEXT_BYTES if lazy else EAGER_CONTEXT_BYTES
    return context + COMMUNICATOR_BYTES * (communicators + (plan.num_devices > 1))


def verdict(driver_bytes: float, live_bytes: float, capacity: float) -> str:
    """Say whether it fits; borderline where the allocator's overhead decides.

    >>> [verdict(gb * GiB, gb * GiB, 80 * GiB) for gb in (70.0, 79.0, 90.0)]
    ['fits', 'borderline', 'does not fit']
    """
    if driver_bytes + FRAGMENTATION * live_bytes <= capacity:
        return "fits"
    return "borderline" if driver_bytes - FRAGMENTATION * live_bytes <= capacity else "does not fit"


def build_cluster(config: RunConfig) -> Cluster:
    """Return the run's machine."""
    spec = config.cluster
    return build_machine(spec.preset, spec.num_devices, spec.parameters)


def _check_size(config: RunConfig) -> None:
    """Refuse what no replay gets through. Raises `PlanError`."""
    plan, layers = config.plan, config.model.num_layers
    if plan.num_devices > MOST_DEVICES:
        raise PlanError(
            f"the plan has {plan.num_devices} devices, more than can be replayed; choose at most {MOST_DEVICES}"
        )
    passes = plan.num_microbatches * (layers + plan.num_stages)
    if passes > MOST_PASSES:
        raise PlanError(
            f"{plan.num_microbatches} microbatches of {layers} layers and {plan.num_stages} stages are too many to "
            f"replay (their product may be {MOST_PASSES}); choose a smaller global_batch, or a larger microbatch or dp"
        )


def simulate_run(config: RunConfig, *, unfolded: bool = False, merged: bool = False) -> Result:
    """Replay one training step of a run; ``merged`` plays runs of ops as one (the same times, see `sim.chain`).

    A step of more than `MANY_OPS` ops is always merged; its spans are laid out again where they are asked for.
    """
    _check_size(config)
    start = perf_counter()
    with uncollected():
        program = lower(config.model, config.plan)
        timeline = simulate(
            program,
            build_cluster(config),
            unfolded=unfolded,
            launch=software(config.plan.software).launch,
            merged=merged or num_ops(program) > MANY_OPS,
            jitter=JITTER,
        )
    return Result(config, timeline, perf_counter() - start)
