"""Kineto form: the events of one rank as `torch.profiler` names them, for readers such as HolisticTraceAnalysis.

What those readers ask for: kernels of category ``kernel`` on numbered streams, communication named
``ncclDevKernel_...``, ``ProfilerStep#k`` annotations (the last of which they drop), the rank in ``distributedInfo``
with a blank after its colon. Those readers measure from a rank's first kernel to its last, so two marks (memsets of a
nanosecond) stand at the step's start and end. A transfer is a kernel from its start to its end, without the wait for
its peers; `sim.occupancy` splits a step as those readers do, and stands in the file under ``simulated``.
"""

import json
from collections.abc import Iterator

import numpy as np

from sim.facts import Facts, Plans, action_facts, op_facts
from sim.occupancy import occupancy
from sim.program import Action, Collective, Compute, Op, Recv, Send
from sim.timeline import Timeline
from sim.units import KILO, ns

FIRST_STREAM, NEXT_STREAMS, STREAM_STEP = 7, 20, 4
"""Stream numbers as real traces have them: compute on 7, the others from 20."""
CPU_THREAD = 1
COLLECTIVE_NAMES = {
    "all_reduce": "AllReduce_Sum",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter_Sum",
    "all_to_all": "AllToAll",
    "broadcast": "Broadcast",
    "reduce": "Reduce_Sum",
}


def kernel_name(op: Op, dtype: str, algorithm: str) -> str:
    """Return what a profiler would call an op.

    >>> kernel_name(Collective("g", "all_gather", "dp", 8.0), "bf16", "ring LL128")
    'ncclDevKernel_AllGather_bf16_RING_LL128(dp g)'
    """
    match op:
        case Collective():
            what = COLLECTIVE_NAMES.get(op.kind, op.kind)
            how = "_".join(algorithm.upper().replace("-", "_").split()) or "RING_SIMPLE"
            return f"ncclDevKernel_{what}_{dtype}_{how}({op.axis} {op.name})"
        case Send() | Recv():
            return f"ncclDevKernel_SendRecv({op.channel} {op.name})"
        case Compute():
            return op.name
        case _:
            return type(op).__name__


def kineto_lines(timeline: Timeline, rank: int, plans: Plans) -> Iterator[str]:
    """Yield the text of one rank's file, line by line."""
    yield '{"schemaVersion": 1,\n'
    yield f'"deviceProperties": [{json.dumps(_device(timeline, rank))}],\n'
    split = occupancy(timeline, timeline.class_of_rank(rank))._asdict()
    yield f'"simulated": {json.dumps({f"{part}_s": seconds for part, seconds in split.items()})},\n'
    yield f'"distributedInfo": {json.dumps(_distributed(timeline, rank))},\n'
    yield f'"displayTimeUnit": "ms", "baseTimeNanoseconds": 0, "traceName": "simulated rank {rank}",\n'
    yield '"traceEvents": [\n'
    yield ",\n".join(_events(timeline, rank, plans))
    yield "\n]}\n"


def _device(timeline: Timeline, rank: int) -> dict[str, object]:
    device = timeline.cluster.device(int(timeline.device_of[rank]))
    return {
        "id": 0,
        "name": f"{device.name} (simulated)",
        "totalGlobalMem": int(device.memory_bytes),
        "numSms": device.compute_units,
    }


def _distributed(timeline: Timeline, rank: int) -> dict[str, object]:
    program = timeline.program
    groups = []
    for axis, members in program.groups.items():
        mine = members[(members == rank).any(axis=1)]
        if len(mine):
            groups.append(
                {
                    "pg_name": axis,
                    "pg_desc": axis,
                    "pg_size": mine.shape[1],
                    "ranks": mine[0].tolist(),
                }
            )
    return {
        "backend": "nccl",
        "rank": rank,
        "world_size": program.num_ranks,
        "pg_count": len(groups),
        "pg_config": groups,
    }


def _events(timeline: Timeline, rank: int, plans: Plans) -> Iterator[str]:
    rank_class = timeline.class_of_rank(rank)
    yield from _names(timeline, rank, rank_class)
    end = int(np.rint(timeline.step_time / ns))
    for step, (start, length) in enumerate(((0, end), (end + 1, 1))):
        for cat in ("user_annotation", "gpu_user_annotation"):
            where = (
                f'"pid":{rank + 1},"tid":{CPU_THREAD}'
                if cat == "user_annotation"
                else f'"pid":0,"tid":{FIRST_STREAM}'
            )
            yield (
                f'{{"ph":"X","cat":"{cat}","name":"ProfilerStep#{step}",{where},'
                f'"ts":{start / KILO:.3f},"dur":{length / KILO:.3f},"args":{{}}}}'
            )
    yield from (_mark(at) for at in (0, max(end - 1, 0)))
    texts: dict[int, tuple[str, str]] = {}
    actions: dict[Action, str] = {}
    for number, name in _streams(timeline, rank_class):
        found = list(timeline.spans(rank_class, name))
        times = np.rint(np.array([(s.start, s.end) for s in found]).reshape(-1, 2) / ns).astype(
            np.int64
        )
        for span, (start, stop) in zip(found, times.tolist(), strict=True):
            if id(span.op) not in texts:
                texts[id(span.op)] = _texts(timeline, rank_class, span.op, plans)
            if span.action not in actions:
                actions[span.action] = json.dumps(action_facts(span.action))[1:-1]
            name_text, args = texts[id(span.op)]
            yield (
                f'{{"ph":"X","cat":"kernel","name":{name_text},"pid":0,"tid":{number},"ts":{start / KILO:.3f},'
                f'"dur":{(stop - start) / KILO:.3f},"args":{{"device":0,"stream":{number},{args},'
                f"{actions[span.action]}}}}}"
            )


def _mark(at: int) -> str:
    """A kernel of one nanosecond that does nothing, at a time in ns."""
    return (
        f'{{"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":0,"tid":{FIRST_STREAM},'
        f'"ts":{at / KILO:.3f},"dur":0.001,"args":{{"device":0,"stream":{FIRST_STREAM},"bytes":0}}}}'
    )


def _streams(timeline: Timeline, rank_class: int) -> list[tuple[int, str]]:
    """Number of every stream: those that compute from 7, the others from 20."""
    computing = [s.name for s in timeline.streams_of[rank_class] if s.computes]
    others = [s.name for s in timeline.streams_of[rank_class] if not s.computes]
    found = [(FIRST_STREAM + i, name) for i, name in enumerate(computing)]
    return found + [(NEXT_STREAMS + STREAM_STEP * i, name) for i, name in enumerate(others)]


def _names(timeline: Timeline, rank: int, rank_class: int) -> Iterator[str]:
    events: list[tuple[int, int, str, dict[str, object]]] = [
        (0, 0, "process_name", {"name": "python"}),
        (0, 0, "process_labels", {"labels": "GPU 0"}),
        (rank + 1, 0, "process_name", {"name": "python"}),
        (rank + 1, 0, "process_labels", {"labels": "CPU"}),
    ]
    for number, name in _streams(timeline, rank_class):
        events.append((0, number, "thread_name", {"name": f"stream {number} ({name})"}))
        events.append((0, number, "thread_sort_index", {"sort_index": number}))
    for pid, tid, name, args in events:
        yield json.dumps({"ph": "M", "ts": 0.0, "pid": pid, "tid": tid, "name": name, "args": args})


def _texts(timeline: Timeline, rank_class: int, op: Op, plans: Plans) -> tuple[str, str]:
    """Name and arguments of an op, as JSON."""
    facts = op_facts(timeline, plans, rank_class, op)
    name = kernel_name(op, timeline.program.dtype, str(facts.get("algorithm", "")))
    args: Facts = {key: value for key, value in facts.items() if key != "axis"}
    if isinstance(op, Collective):
        args["Collective name"] = op.kind
        args["Group size"] = facts["group"]
        args["Process Group Name"] = op.axis
        args["dtype"] = timeline.program.dtype
    return json.dumps(name), json.dumps(args)[1:-1]
