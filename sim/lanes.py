"""Lanes: a timeline as rows of bars, at the detail a picture of given resolution can show.

A rank class has a lane for each stream that computes and, under it, lanes of communication. In a lane of *actions* the
kernels of one action are one bar wherever they follow each other within a pixel, and recompute is a strip along
its foot; in a lane of *kernels* each is drawn. Communication narrower than a few pixels is thinned to blocks whose
``solid`` share is the time it takes of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from sim.palette import ACTION_PHASE, HOST_HUE, PHASES, axis_hue, mix, shade
from sim.program import Action, Collective, Compute, Merged, Op, Recv, Send
from sim.timeline import HOST, Span, StreamRecord, Timeline, each_span

Detail = Literal["actions", "kernels"]
Window = tuple[float, float]
THIN = 3.0
"""Bars of communication narrower than this many pixels are thinned."""
KIND_WHITE = {"all_gather": 0.35, "all_reduce": -0.25}
"""White (or black) in an axis's colour by what the collective does; forward messages are light too."""


class Bar(NamedTuple):
    """One bar: [start, end) in s, colour, legend label, text (may be empty), opacity, share of the lane's height."""

    start: float
    end: float
    colour: str
    label: str
    text: str = ""
    solid: float = 1.0
    height: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A row of bars: its name, its rank class and its height, 1.0 that of a stream that computes."""

    name: str
    rank_class: int
    height: float
    bars: list[Bar]


def num_chunks(timeline: Timeline) -> int:
    """Return how many chunks a rank holds."""
    chunks = {action.chunk for script in timeline.program.scripts for stream in script.streams.values()
              for action, _ in stream}  # fmt: skip
    return max(chunks, default=0) + 1


def inside(stream: StreamRecord, window: Window) -> list[Span]:
    """Return the spans of a stream that show in a window and take time."""
    low, high = window
    near = replace(stream, spans=[s for s in stream.spans if s[4] > low and s[3] < high])
    return [s for s in each_span(near) if s.end > low and s.start < high and s.end > s.start]


def kernel_seconds(timeline: Timeline, rank_class: int) -> float:
    """Return how long kernels of a rank class run in the step, all its streams added."""
    share: dict[int, float] = {}
    seconds = 0.0
    for stream in timeline.streams_of[rank_class]:
        for op, _, _, start, end in stream.spans:
            if id(op) not in share:
                share[id(op)] = _kernel_share(op)
            seconds += (end - start) * share[id(op)]
    return seconds


def _kernel_share(op: Op) -> float:
    """Share of an op's time that is kernels: of ops played as one, those among them."""
    if isinstance(op, Merged):
        kernels = sum(
            s for part, s in zip(op.ops, op.alone, strict=True) if isinstance(part, Compute)
        )
        return kernels / sum(op.alone) if sum(op.alone) else 0.0
    return float(isinstance(op, Compute))


def compute_lane(
    stream: StreamRecord, spans: Sequence[Span], pixel: float, detail: Detail, chunks: int
) -> Lane:
    """Return the lane of a stream that computes; ``pixel`` is the seconds of one, ``chunks`` those of a rank."""
    if detail == "kernels":
        bars = [_kernel_bar(span, chunks) for span in spans]
    else:
        bars = _action_bars(spans, chunks, pixel) + _recompute_strips(spans, pixel)
    return Lane(name=stream.name, rank_class=stream.rank_class, height=1.0, bars=bars)


def _kernel_bar(span: Span, chunks: int) -> Bar:
    op, action, _, start, end = span
    if isinstance(op, Compute):
        hue = PHASES.get(op.phase, PHASES["F"])
        return Bar(start, end, shade(hue.colour, action.chunk, chunks), hue.label, op.name)
    colour, label = communication_hue(op)
    return Bar(start, end, colour, label, getattr(op, "name", ""))


def action_hue(span: Span, chunks: int) -> tuple[str, str]:
    """Return colour (in the shade of its chunk) and legend label of a bar of a whole action."""
    op, action = span[0], span[1]
    phase = ACTION_PHASE.get(action.kind, getattr(op, "phase", "F"))
    if action.kind == "F&B" and isinstance(op, Compute):
        phase = op.phase
    hue = PHASES.get(phase, PHASES["F"])
    label = "backward" if action.kind == "BW" else hue.label
    label = "input gradient" if action.kind == "B" else label
    return shade(hue.colour, action.chunk, chunks), label


def _action_bars(spans: Sequence[Span], chunks: int, pixel: float) -> list[Bar]:
    """Merge what follows within a pixel and belongs to one action; wide inline communication stays apart.

    The text is the microbatch, or what it is where there is one microbatch only.
    """
    bars: list[Bar] = []
    hues: dict[tuple[Action, str], tuple[str, str]] = {}
    several = any(span.action.microbatch > 0 for span in spans)
    open_key: tuple[Action, str] | None = None
    begun = reached = 0.0

    def close() -> None:
        if open_key is not None:
            action = open_key[0]
            text = str(action.microbatch) if action.microbatch >= 0 else ""
            bars.append(
                Bar(begun, reached, *hues[open_key], text if several else hues[open_key][1])
            )

    for span in spans:
        op, action, _, start, end = span
        if not isinstance(op, Compute) and end - start > THIN * pixel:
            close()
            open_key = None
            bars.append(Bar(start, end, *communication_hue(op)))
            continue
        key = (action, op.phase if action.kind == "F&B" and isinstance(op, Compute) else "")
        if key != open_key or start - reached > pixel:
            close()
            open_key, begun = key, start
            if key not in hues:
                hues[key] = action_hue(span, chunks)
        reached = end
    close()
    return bars


def _recompute_strips(spans: Sequence[Span], pixel: float) -> list[Bar]:
    """Return a strip along the foot of the lane wherever a pass is run again."""
    hue = PHASES["R"]
    again = [
        (start, end)
        for op, _, _, start, end in spans
        if isinstance(op, Compute) and op.phase == "R"
    ]
    return [
        Bar(start, end, hue.colour, hue.label, solid=max(solid, 0.4), height=0.3)
        for start, end, solid in thin(again, pixel)
    ]


def communication_hue(op: Op) -> tuple[str, str]:
    """Return colour and legend label of a collective or message."""
    match op:
        case Collective():
            hue = axis_hue(op.axis)
            kind = op.kind.replace("_", "-")
            return mix(hue.colour, KIND_WHITE.get(op.kind, 0.0)), f"{hue.label} {kind}"
        case Send() | Recv():
            hue = axis_hue(op.channel)
            forward = op.phase == "F"
            return mix(hue.colour, 0.35 if forward else 0.0), (
                f"{hue.label} transfer {'forward' if forward else 'backward'}"
            )
        case _:
            return HOST_HUE.colour, HOST_HUE.label


def communication_lane(
    name: str,
    rank_class: int,
    spans: Iterable[Span],
    pixel: float,
    *,
    height: float,
    names: bool,
) -> Lane:
    """Return a lane of transfers; ``names`` writes what each is where it fits."""
    by_hue: dict[tuple[str, str], list[tuple[float, float]]] = {}
    wide: list[Bar] = []
    for op, _, _, start, end in spans:
        colour, label = communication_hue(op)
        if end - start > THIN * pixel:
            wide.append(Bar(start, end, colour, label, getattr(op, "name", "") if names else ""))
        else:
            by_hue.setdefault((colour, label), []).append((start, end))
    narrow = [
        Bar(start, end, colour, label, solid=max(solid, 0.15))
        for (colour, label), found in by_hue.items()
        for start, end, solid in thin(found, pixel)
    ]
    return Lane(name=name, rank_class=rank_class, height=height, bars=narrow + wide)


def thin(
    intervals: Sequence[tuple[float, float]], pixel: float
) -> list[tuple[float, float, float]]:
    """Join intervals that share a block of a few pixels: (start, end, share of it that is busy)."""
    if not intervals:
        return []
    ordered = np.array(sorted(intervals))
    block = np.floor(ordered[:, 0] / (THIN * pixel))
    first = np.flatnonzero(np.diff(block, prepend=block[0] - 1))
    start = ordered[first, 0]
    end = np.maximum.reduceat(ordered[:, 1], first)
    busy = np.add.reduceat(ordered[:, 1] - ordered[:, 0], first)
    solid = np.minimum(busy / np.maximum(end - start, pixel), 1.0)
    return list(
        zip(start.tolist(), np.maximum(end, start + pixel).tolist(), solid.tolist(), strict=True)
    )


def host_lane(
    stream: StreamRecord, window: Window, *, height: float, threshold: float
) -> Lane | None:
    """Return a lane of the host's launches that kept a stream waiting, if they last ``threshold`` s together."""
    low, high = window
    bars = [
        Bar(start, end, HOST_HUE.colour, "host launch")
        for start, end, cause in stream.gaps
        if cause == HOST and end > low and start < high
    ]
    if sum(bar.end - bar.start for bar in bars) < threshold:
        return None
    return Lane(name="host", rank_class=stream.rank_class, height=height, bars=bars)


def transfers(spans: Iterable[Span]) -> list[Span]:
    """Return the collectives and messages among spans."""
    return [span for span in spans if not isinstance(span.op, Compute)]


def axis_of(op: Op) -> str:
    """Return the mesh axis of a collective or message."""
    if isinstance(op, Collective):
        return op.axis.partition(".")[0]
    return op.channel.partition(".")[0] if isinstance(op, Send | Recv) else ""
