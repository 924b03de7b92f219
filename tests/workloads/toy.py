"""Toy: any schedule as a program of kernels of known duration, to be played on any cluster by tests.

Every entry of an order is one kernel of as many bytes as its time has seconds, on a device that moves one byte a second
as long as it takes. What crosses ranks is a message of one byte. So the replay of a schedule can be checked against its
exact times (`workloads.schedules.timing`), and a schedule tried on a real network before a model is chosen.
"""

import numpy as np

from sim.kernels.shapes import Memory
from sim.program import Action, Compute, Program, Recv, Script, Segment, Send
from workloads.schedules import Entry, Orders, Placement, Times, Token

MESSAGE_BYTES = 1.0
"""Size of a toy message."""


def toy_program(orders: Orders, placement: Placement, times: Times) -> Program:
    """Return the program of a schedule: one rank a pipeline place, kernels of ``times`` seconds (bytes).

    A message goes from the end of an action to the rank that needs it, on a stream of its own; ``times.comm`` is the
    network's affair and not read. A chunk's action takes its share of a rank's time.
    """
    p = placement.num_ranks
    ranks = np.arange(p)
    offsets = {(b - a) % p for a, b in _hops(placement)}
    return Program(
        scripts=tuple(_script(order, placement, times, rank) for rank, order in enumerate(orders)),
        script_of_rank=ranks,
        peers={_channel(offset): (ranks + offset) % p for offset in sorted(offsets)},
        flops=dict.fromkeys(("full", "causal", "hardware"), 0.0),
    )


def _hops(placement: Placement) -> set[tuple[int, int]]:
    """Pairs of different ranks that hold neighbouring stages, both ways."""
    found = set()
    for rank in range(placement.num_ranks):
        for chunk in range(placement.chunks):
            after = placement.next(rank, chunk)
            if after is not None and after[0] != rank:
                found |= {(rank, after[0]), (after[0], rank)}
    return found


def _channel(offset: int) -> str:
    return f"pp.{offset}"


def _script(order: tuple[Entry, ...], placement: Placement, times: Times, rank: int) -> Script:
    streams: dict[str, list[Segment]] = {"compute": []}
    for entry in order:
        waits, signals = [], []
        for token in entry:
            came, gone = _messages(token, placement, rank, streams)
            waits += came
            signals += gone
        stage = placement.stage(rank, entry[0].chunk)
        op = Compute(
            "&".join(map(str, entry)),
            Memory("copy", _seconds(entry, placement, times)),
            "F" if entry[0].kind == "F" else "B",
            waits=tuple(waits),
            signals=tuple(signals),
        )
        kind = entry[0].kind if len(entry) == 1 else "F&B"
        streams["compute"].append(
            Segment(Action(kind, stage, entry[0].chunk, entry[0].microbatch), (op,))
        )
    made = {name: tuple(segments) for name, segments in streams.items()}
    return Script(streams=made, label=f"pipeline rank {rank}", place=rank)


def _seconds(entry: Entry, placement: Placement, times: Times) -> float:
    each = {"F": times.f, "B": times.b, "W": times.w, "BW": times.b + times.w}
    whole = times.pair if len(entry) == 2 else each[entry[0].kind]
    return whole * placement.share


def _messages(
    token: Token, placement: Placement, rank: int, streams: dict[str, list[Segment]]
) -> tuple[list[str], list[str]]:
    """Add the messages of an action to their streams; return what its kernel waits for and signals."""
    if token.kind == "W":
        return [], []
    way = "F" if token.kind == "F" else "B"
    source, target = placement.previous(rank, token.chunk), placement.next(rank, token.chunk)
    if way == "B":
        source, target = target, source
    label = f"{way}{token.chunk}"
    waits, signals = [], []
    stage = placement.stage(rank, token.chunk)
    direction = placement.direction(token.chunk)
    if source is not None and source[0] != rank:
        tag = Action(way, stage, direction, token.microbatch)
        channel = _channel((rank - source[0]) % placement.num_ranks)
        recv = Recv(f"recv.{label}", channel, MESSAGE_BYTES, way, signals=(f"came.{label}",))
        streams.setdefault(f"recv.{label}", []).append(Segment(tag, (recv,)))
        waits.append(f"came.{label}")
    if target is not None and target[0] != rank:
        tag = Action(way, stage + (1 if way == "F" else -1), direction, token.microbatch)
        channel = _channel((target[0] - rank) % placement.num_ranks)
        send = Send(f"send.{label}", channel, MESSAGE_BYTES, way, waits=(f"done.{label}",))
        streams.setdefault(f"send.{label}", []).append(Segment(tag, (send,)))
        signals.append(f"done.{label}")
    return waits, signals
