"""Traces for other tools: one Chrome/Perfetto file of a step, or Kineto files that profilers' readers open.

A process is a rank that stands for its class, a thread one of its streams; spans are complete events in whole
nanoseconds, so that the events of a thread never overlap by rounding. Arrows join a message's send and receive;
counters show memory. Format: the Trace Event Format of Chrome; the Kineto form is what `torch.profiler` exports.
"""

import gzip
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from sim.errors import InputError
from sim.facts import Facts, Plans, action_facts, op_facts, plans_of
from sim.kineto import kineto_lines
from sim.memory import memory_curve
from sim.palette import memory_colours
from sim.program import Action, Collective, Compute, Op, Recv, Send
from sim.timeline import StreamRecord, Timeline
from sim.units import KILO, GiB, ns

COLOURS = {
    "F": "thread_state_running", "B": "good", "W": "rail_idle", "R": "thread_state_iowait", "O": "grey",
}  # fmt: skip
"""Names Chrome's viewer reserves for colours near those of `sim.palette` (Perfetto chooses its own)."""


def write_trace(
    timeline: Timeline,
    path: str | Path,
    *,
    rank_classes: Sequence[int] | None = None,
    memory: bool = True,
) -> None:
    """Write the step as Chrome/Perfetto JSON (gzip if the name ends in ``.gz``); times in microseconds.

    ``rank_classes``: which to show (default all); ``memory``: with counters of live memory. Raises `InputError` for
    a rank class that does not exist.
    """
    shown = _chosen(rank_classes, timeline.num_classes, "rank class")
    with _open(Path(path)) as file:
        file.write(
            '{"displayTimeUnit":"ms","otherData":'
            + json.dumps(_facts(timeline))
            + ',\n"traceEvents":[\n'
        )
        file.write(",\n".join(_lines(timeline, shown, memory)))
        file.write("\n]}\n")


def write_kineto(
    timeline: Timeline,
    folder: str | Path,
    ranks: Sequence[int] | None = None,
    *,
    compressed: bool = False,
) -> list[Path]:
    """Write one Kineto file a rank into a folder (made if needed) and return their paths.

    ``ranks``: any ranks (default: the first of each class). Compute runs on stream 7; communication kernels are named
    ``ncclDevKernel_...``, as readers expect; step 0 is the simulated one, step 1 an empty end mark that readers drop.
    """
    default = timeline.folding.representative.tolist()
    chosen = _chosen(ranks, timeline.program.num_ranks, "rank", default)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    plans, paths = plans_of(timeline), []
    for rank in chosen:
        path = target / f"rank{rank}.pt.trace.json{'.gz' if compressed else ''}"
        with _open(path) as file:
            file.writelines(kineto_lines(timeline, rank, plans))
        paths.append(path)
    return paths


def _chosen(
    wanted: Sequence[int] | None, number: int, what: str, default: Sequence[int] | None = None
) -> list[int]:
    chosen = list(wanted) if wanted is not None else list(default or range(number))
    for index in chosen:
        if not 0 <= index < number:
            raise InputError(f"{what} {index} does not exist; choose from 0 to {number - 1}")
    return chosen


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "wt", compresslevel=1, encoding="ascii")
    return path.open("w", encoding="ascii")


def _facts(timeline: Timeline) -> dict[str, object]:
    """What the file says of itself."""
    return {
        "simulated": True,
        "ranks": timeline.program.num_ranks,
        "rank_classes": timeline.num_classes,
        "step_time_s": timeline.step_time,
        "assumptions": list(
            dict.fromkeys(
                (
                    *timeline.program.assumptions,
                    *timeline.cluster.assumptions,
                    *timeline.assumptions,
                )
            )
        ),
    }


def _lines(timeline: Timeline, shown: Sequence[int], memory: bool) -> Iterator[str]:
    """Yield every event as one line of JSON."""
    plans, writer = plans_of(timeline), _Writer(timeline)
    for rank_class in shown:
        yield from _names(timeline, rank_class)
        for number, stream in enumerate(timeline.streams_of[rank_class]):
            yield from writer.spans(stream, number, plans)
        if memory:
            yield from _counters(timeline, rank_class)
    yield from writer.arrows(shown)


def _names(timeline: Timeline, rank_class: int) -> Iterator[str]:
    rank, size = (
        int(timeline.folding.representative[rank_class]),
        int(timeline.folding.size[rank_class]),
    )
    place = timeline.place(rank_class)
    alike = f" (of {size:,} alike)" if size > 1 else ""
    title = f"rank {rank:,}{alike}, pipeline place {place}"
    named: list[tuple[int | None, str, dict[str, object]]] = [
        (None, "process_name", {"name": title})
    ]
    named.append(
        (None, "process_sort_index", {"sort_index": place * timeline.program.num_ranks + rank})
    )
    for number, stream in enumerate(timeline.streams_of[rank_class]):
        named.append((number, "thread_name", {"name": stream.name}))
        named.append(
            (
                number,
                "thread_sort_index",
                {"sort_index": number if stream.computes else 100 + number},
            )
        )
    for tid, name, args in named:
        event = {
            "ph": "M",
            "pid": rank,
            **({} if tid is None else {"tid": tid}),
            "name": name,
            "args": args,
        }
        yield json.dumps(event)


def _inner(facts: Facts) -> str:
    """The members of a JSON object, without its braces."""
    return json.dumps(facts)[1:-1]


Message = tuple[int, str, str, Action]
"""Who receives: rank class and channel, which way, and the action both ends carry."""


class _Writer:
    """Writes spans; keeps the text of ops and actions it has met, and where messages start and land."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.ops: dict[tuple[int, int], tuple[str, str]] = {}
        self.actions: dict[Action, str] = {}
        self.sent: dict[Message, deque[tuple[int, int, int]]] = defaultdict(deque)
        self.landed: dict[Message, deque[tuple[int, int, int]]] = defaultdict(deque)

    def spans(self, stream: StreamRecord, tid: int, plans: Plans) -> Iterator[str]:
        """Yield the complete events of a stream; start and end are rounded, not the duration."""
        rank_class, timeline = stream.rank_class, self.timeline
        pid = int(timeline.folding.representative[rank_class])
        found = list(timeline.spans(rank_class, stream.name))
        times = np.rint(np.array([(s.start, s.end) for s in found]).reshape(-1, 2) / ns).astype(
            np.int64
        )
        for span, (start, end) in zip(found, times.tolist(), strict=True):
            op, action = span.op, span.action
            text = self.ops.get((rank_class, id(op))) or self._op(rank_class, op, plans)
            tail = self.actions.get(action) or self._action(action)
            yield (
                f'{{"ph":"X","pid":{pid},"tid":{tid},"ts":{start / KILO:.3f},"dur":{(end - start) / KILO:.3f},'
                f'{text[0]},"args":{{{text[1]},{tail}}}}}'
            )
            if isinstance(op, Send | Recv):
                self._message(rank_class, op, action, (tid, start, end))

    def _op(self, rank_class: int, op: Op, plans: Plans) -> tuple[str, str]:
        facts = op_facts(self.timeline, plans, rank_class, op)
        head: Facts = {"name": getattr(op, "name", str(facts["op"])), "cat": category(op)}
        phase = str(facts.get("phase", ""))
        if isinstance(op, Compute) and phase in COLOURS:
            head["cname"] = COLOURS[phase]
        self.ops[rank_class, id(op)] = text = (_inner(head), _inner(facts))
        return text

    def _action(self, action: Action) -> str:
        text = self.actions[action] = _inner(action_facts(action))
        return text

    def _message(
        self, rank_class: int, op: Send | Recv, action: Action, at: tuple[int, int, int]
    ) -> None:
        folding = self.timeline.folding
        if isinstance(op, Send):
            pair = folding.sends_to[op.channel, rank_class]
            self.sent[pair.dst, op.channel, op.phase, action].append(at)
        else:
            self.landed[rank_class, op.channel, op.phase, action].append(at)

    def arrows(self, shown: Sequence[int]) -> Iterator[str]:
        """Yield a flow from every send to the receive it feeds, where both ends are shown."""
        representative, folding = self.timeline.folding.representative, self.timeline.folding
        number = 0
        for key, sends in self.sent.items():
            receiver, channel, _, _ = key
            if receiver not in shown or key not in self.landed:
                continue
            source = int(representative[folding.receives_from[channel, receiver].src])
            ends = self.landed[key]
            for (tid, start, _), (to, begin, end) in zip(sends, ends, strict=False):
                number += 1
                head = f'"cat":"message","name":"{channel}","id":{number}'
                land = max(begin, end - 1, start)
                yield f'{{"ph":"s",{head},"pid":{source},"tid":{tid},"ts":{start / KILO:.3f}}}'
                yield (
                    f'{{"ph":"f","bp":"e",{head},"pid":{int(representative[receiver])},"tid":{to},'
                    f'"ts":{land / KILO:.3f}}}'
                )


def category(op: Op) -> str:
    """Return the category of an op: ``compute.F``, ``comm.tp``, ``comm.pp``."""
    match op:
        case Compute():
            return f"compute.{op.phase}"
        case Collective():
            return f"comm.{op.axis}"
        case Send() | Recv():
            return f"comm.{op.channel.partition('.')[0]}"
        case _:
            return "other"


def _counters(timeline: Timeline, rank_class: int) -> Iterator[str]:
    """Yield live memory in GiB by category, as charts stack it, after every change (the last of those at one time)."""
    curve = memory_curve(timeline, rank_class)
    rank = int(timeline.folding.representative[rank_class])
    when = np.rint(curve.time / ns).astype(np.int64)
    last = np.flatnonzero(np.diff(when, append=-1))
    names = list(memory_colours(curve.categories))
    kept = curve.held[last][:, [curve.categories.index(name) for name in names]] / GiB
    for time, held in zip(when[last].tolist(), kept.tolist(), strict=True):
        parts = ",".join(f'"{c}":{value:.4f}' for c, value in zip(names, held, strict=True))
        yield f'{{"ph":"C","pid":{rank},"name":"memory (GiB)","ts":{time / KILO:.3f},"args":{{{parts}}}}}'
