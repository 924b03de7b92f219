"""Metrics: numbers read off a timeline. Fractions are 0..1, times seconds, rates per second."""

from collections import Counter, defaultdict

import numpy as np

from sim.device import Device
from sim.program import Collective, Compute, Merged, Send
from sim.timeline import StreamRecord, Timeline


def step_time(timeline: Timeline) -> float:
    """Seconds of the step: until the last stream of the last rank ends."""
    return timeline.step_time


def tokens_per_s(timeline: Timeline) -> float:
    """Tokens of the global batch over the step time."""
    return timeline.program.tokens / timeline.step_time


def flops_per_device(timeline: Timeline, convention: str = "full") -> float:
    """Model FLOP/s a device; ``convention`` full, causal, or hardware (recompute counted)."""
    program = timeline.program
    return program.flops[convention] / timeline.step_time / program.num_ranks


def mfu(timeline: Timeline, convention: str = "full") -> float:
    """Model FLOPs utilisation: model FLOP/s over the dense peak of the precision, recompute not counted.

    Source of the definition: Chowdhery et al. 2022 (PaLM), appendix B; ``full`` counts the whole attention matrix.
    """
    return flops_per_device(timeline, convention) / mean_peak(timeline)


def hfu(timeline: Timeline) -> float:
    """Hardware FLOPs utilisation: as `mfu`, recomputed FLOPs counted."""
    return mfu(timeline, "hardware")


def mean_peak(timeline: Timeline) -> float:
    """Dense peak FLOP/s of the program's precision, mean over its devices."""
    kinds = timeline.cluster.device_kind[timeline.device_of]
    peaks = np.array(
        [peak(device, timeline.program.dtype) for device in timeline.cluster.device_kinds]
    )
    return float(peaks[kinds].mean())


def peak(device: Device, dtype: str) -> float:
    """Dense peak of a dtype; one the device lacks runs at bf16's (or fp16's) peak."""
    for name in (dtype, "bf16", "fp16"):
        if name in device.peak:
            return device.peak[name]
    raise KeyError(f"{device.name} lists no peak for {dtype}, bf16 or fp16")


def bubble_fraction(mean: dict[str, float], step: float) -> float:
    """Pipeline bubble's share of the step, from the mean ledger."""
    return sum(seconds for cause, seconds in mean.items() if cause.startswith("bubble.")) / step


def bubble_overhead(mean: dict[str, float], step: float) -> float:
    """Pipeline bubble over the rest of the step ((p-1)/m in Megatron's sense, when all else is busy)."""
    bubble = bubble_fraction(mean, step)
    return bubble / (1.0 - bubble)


def exposed_communication(mean: dict[str, float]) -> dict[str, float]:
    """Seconds of communication nothing hides, by axis, from the mean ledger."""
    return {
        cause.removeprefix("exposed."): seconds
        for cause, seconds in mean.items()
        if cause.startswith("exposed.")
    }


def overlap_fraction(timeline: Timeline, parts: list[dict[str, float]]) -> float:
    """Share of the time ranks communicate that is hidden under compute (mean over ranks)."""
    talking = hidden = 0.0
    for rank_class, size in enumerate(timeline.folding.size):
        busy = _communicating(timeline.streams_of[rank_class])
        exposed = sum(exposed_communication(parts[rank_class]).values())
        talking += busy * float(size)
        hidden += max(busy - exposed, 0.0) * float(size)
    return hidden / talking if talking else 0.0


def _communicating(streams: list[StreamRecord]) -> float:
    """Seconds during which at least one transfer of the rank is in flight."""
    parts = [_transfers(stream) for stream in streams]
    spans = np.concatenate(parts) if parts else np.zeros((0, 2))
    if not len(spans):
        return 0.0
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reached = np.maximum.accumulate(np.concatenate([[0.0], spans[:-1, 1]]))
    return float(np.maximum(spans[:, 1] - np.maximum(spans[:, 0], reached), 0.0).sum())


def _transfers(stream: StreamRecord) -> np.ndarray:
    """Intervals during which a stream communicates, (n, 2)."""
    single = [
        (start, end)
        for op, _, _, start, end in stream.spans
        if not isinstance(op, Compute | Merged)
    ]
    blocks = [np.array(single, dtype=float).reshape(-1, 2)]
    chains: dict[Merged, list[tuple[float, float]]] = defaultdict(list)
    for op, _, _, start, end in stream.spans:
        if isinstance(op, Merged):
            chains[op].append((start, end))
    for merged, intervals in chains.items():
        inside = [i for i, part in enumerate(merged.ops) if isinstance(part, Collective)]
        if not inside:
            continue
        bounds = np.concatenate([[0.0], np.cumsum(merged.alone)])
        if bounds[-1]:
            when = np.array(intervals)
            stretch = (when[:, 1] - when[:, 0]) / bounds[-1]
            relative = np.array([(bounds[i], bounds[i + 1]) for i in inside])
            spans = when[:, :1, None] + stretch[:, None, None] * relative[None]
            blocks.append(spans.reshape(-1, 2))
    return np.concatenate(blocks)


def utilization(timeline: Timeline) -> dict[str, float]:
    """Busy share of compute, of device memory bandwidth, and of the busiest links (means over ranks and links).

    ``compute``: time kernels run; ``memory``: bytes the kernels must move over the bandwidth; ``links``: bytes over
    capacity of all links that carried any.
    """
    step = timeline.step_time
    compute = memory = 0.0
    for rank_class, size in enumerate(timeline.folding.size):
        device = timeline.cluster.device_kinds[timeline.device_kind(rank_class)]
        busy = moved = 0.0
        for stream in timeline.streams_of[rank_class]:
            for op, _, _, start, end in stream.spans:
                if isinstance(op, Compute):
                    busy += end - start
                    moved += op.kernel.nbytes
                elif isinstance(op, Merged):
                    idle, bytes_moved = _merged_work(op)
                    busy += end - start - idle
                    moved += bytes_moved
        compute += busy * float(size)
        memory += moved / device.memory_bandwidth * float(size)
    ranks = timeline.program.num_ranks
    carried = link_bytes(timeline)
    used = carried > 0
    links = (
        float((carried[used] / timeline.cluster.link_capacity[used]).mean()) if used.any() else 0.0
    )
    return {
        "compute": compute / step / ranks,
        "memory": memory / step / ranks,
        "links": links / step,
    }


def _merged_work(op: Merged) -> tuple[float, float]:
    """Seconds a chain communicates, and bytes its kernels move."""
    idle = moved = 0.0
    for part, seconds in zip(op.ops, op.alone, strict=True):
        if isinstance(part, Compute):
            moved += part.kernel.nbytes
        else:
            idle += seconds
    return idle, moved


def link_bytes(timeline: Timeline) -> np.ndarray:
    """Bytes each link carried during the step, (num_links,)."""
    carried = np.zeros(len(timeline.cluster.links.bandwidth))
    chained = _chained(timeline)
    for step in timeline.communications:
        times = step.played
        if chained:
            times += sum(chained.pop((c, id(step.op)), 0) for c in step.classes)
        for leg in step.legs:
            if times and leg.nbytes:
                carried[leg.phase.links] += leg.phase.loads * leg.nbytes * times
    return carried


def _chained(timeline: Timeline) -> dict[tuple[int, int], int]:
    """How often each collective was played inside chains, by (rank class, id of the op)."""
    found: Counter[tuple[int, int]] = Counter()
    for rank_class, streams in enumerate(timeline.streams_of):
        chains = Counter(
            op for stream in streams for op, *_ in stream.spans if isinstance(op, Merged)
        )
        for merged, times in chains.items():
            for part in merged.ops:
                if isinstance(part, Collective):
                    found[rank_class, id(part)] += times
    return found


def communication_volume(timeline: Timeline, rank_class: int) -> dict[str, float]:
    """Bytes a rank of the class sends in the step, by axis, as the definitions of the collectives say.

    All-reduce 2 (n-1)/n of its bytes, all-gather, reduce-scatter and all-to-all (n-1)/n, any other all of them.
    """
    volume: dict[str, float] = defaultdict(float)
    for span in timeline.spans(rank_class):
        op = span.op
        if isinstance(op, Collective):
            n = timeline.program.groups[op.axis].shape[1]
            share = SHARE[op.kind] * (n - 1) / n if op.kind in SHARE else 1.0
            volume[op.axis] += op.nbytes * share
        elif isinstance(op, Send):
            volume[op.channel] += op.nbytes
    return dict(volume)


SHARE = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
