"""Chains: ops that follow each other on one stream with nothing to wait for between become one step.

A replay of chains gives the same times as a replay of ops, with a tenth of the events: what communication takes of the
device still slows each op of a chain in its own way. Where the host is late, a chain waits for all its launches at its
start, so communication meets other kernels of it: some slowdown is told as launch, the step stays. The spans of the ops
are laid out again when somebody asks for them (`sim.timeline`).
"""

from collections.abc import Sequence

from sim.program import Merged
from sim.steps import (
    CHAIN,
    COLLECTIVE,
    COMPUTE,
    MEMORY,
    NOTHING,
    Compiled,
    CompiledStream,
    Step,
    Steps,
)


def merge(compiled: Compiled) -> None:
    """Replace runs of mergeable steps by chains, in place; shared step lists stay shared."""
    known: dict[int, Steps] = {}
    for stream in compiled.streams:
        _merge_stream(stream, known)


def _merge_stream(stream: CompiledStream, known: dict[int, Steps]) -> None:
    for number, (action, steps) in enumerate(stream.segments):
        merged = known.get(id(steps))
        if merged is None:
            merged = known[id(steps)] = _merge_steps(steps)
        stream.segments[number] = (action, merged)


def _merge_steps(steps: Steps) -> Steps:
    found: Steps = []
    run: list[Step] = []

    def close() -> None:
        working = [step for step in run if step.code != MEMORY]
        if len(working) > 1:
            found.append(chain(run))
        else:
            found.extend(run)
        run.clear()

    for step in steps:
        if not _mergeable(step):
            close()
            found.append(step)
            continue
        if step.waits or step.starts:
            close()
        run.append(step)
        if step.signals:
            close()
    close()
    return found


def _mergeable(step: Step) -> bool:
    return step.code in (COMPUTE, MEMORY) or (step.code == COLLECTIVE and step.quick)


def chain(run: Sequence[Step]) -> Step:
    """Return one step for a run of kernels, quick collectives and allocations."""
    working = [step for step in run if step.code != MEMORY]
    step = Step(CHAIN, Merged(tuple(s.op for s in run), tuple(s.alone for s in run)))
    step.pieces = tuple(run)
    step.waits, step.starts, step.signals = run[0].waits, working[0].starts, run[-1].signals
    step.alone = sum(s.alone for s in run)
    launched = busy = 0.0
    for piece in working:
        launched += piece.launch
        step.need = max(step.need, launched - busy) if piece.launch else step.need
        busy += piece.alone
    step.launch = launched
    rest = [0.0, 0.0, 0.0]
    suffixes = []
    for piece in reversed(run):
        suffixes.append((rest[0], rest[1], rest[2]))
        rest[piece.kind if piece.code == COMPUTE else NOTHING] += piece.alone
    step.rest = tuple(reversed(suffixes))
    return step
