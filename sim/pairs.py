"""Pairs: how much of an overlapped forward and backward (``F&B``) a rank only waits for transfers."""

from sim.program import Action, Collective, Compute, Merged
from sim.timeline import StreamRecord, Timeline

KIND = "F&B"


def pair_exposure(timeline: Timeline) -> float | None:
    """Return the exposed share of the time of overlapped pairs, 0..1, of the rank that waits most (None: no pairs).

    Exposed: the stream that computes runs a collective itself, or waits for one of another stream. Waits for the host
    are not. DeepSeek's public training trace has 3.3 % (deepseek-ai/profile-data).
    """
    found = [
        share
        for streams in timeline.streams_of
        for main in [stream for stream in streams if stream.computes][:1]
        if (share := _exposed(timeline, main)) is not None
    ]
    return max(found, default=None)


def _exposed(timeline: Timeline, main: StreamRecord) -> float | None:
    """Return the exposed share of a stream's pairs."""
    windows: dict[Action, tuple[float, float]] = {}
    waited = 0.0
    for op, action, posted, _, end in main.spans:
        if action.kind == KIND:
            windows[action] = (windows.get(action, (posted, end))[0], end)
            waited += 0.0 if isinstance(op, Compute | Merged) else end - posted
    if not windows:
        return None
    pairs = iter(windows.values())
    low, high = next(pairs)
    for since, until, (stream, span) in main.gaps:
        while high <= since and (pair := next(pairs, None)):
            low, high = pair
        if stream < 0 or span < 0:
            continue
        if isinstance(timeline.streams[stream].spans[span][0], Collective):
            waited += max(min(until, high) - max(since, low), 0.0)
    return waited / sum(high - low for low, high in windows.values())
