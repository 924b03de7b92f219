"""Score runs: every row of a table of measured runs replayed, predicted beside measured.

Equal runs are replayed once; runs on equal clusters go to one worker together, which keeps its clusters.
"""

import re
import signal
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from experiments.bands import band
from experiments.row_software import habits_of
from experiments.row_table import check_cells, read_rows
from experiments.row_text import Row, UnsupportedError, needed, number, text
from experiments.run_row import run_of_row
from experiments.runfile import RunConfig
from experiments.score_sets import category
from experiments.simulation import Result, simulate_run
from experiments.steady import steady
from sim.errors import InputError, SimError
from sim.units import GiB

WORKERS = 2
ROW_TIMEOUT = 60.0
"""CPU seconds a replay may take before its row is given up as unsupported."""
BATCH = 8
"""Runs of one cluster that go to a worker together."""
MEMORY_KINDS = (
    (r"nvidia-smi|driver", "driver_bytes"),
    (r"allocated", "peak_bytes"),
    (r"reserved", "reserved_bytes"),
)
"""Word of a row's notes -> which memory it measured; allocated where it says nothing."""
UNKNOWN_STATES = re.compile(r"not stated")
"""Sharding over nobody knows how many: no memory is predicted."""
Progress = Callable[[int, int], None]


class RowTimeoutError(SimError):
    """A row that took too long."""


def score_runs(
    path: str | Path, progress: Progress | None = None, workers: int = WORKERS
) -> list[dict[str, Any]]:
    """Return one dict a row of the CSV at ``path``, in its order; ``progress(done, total)`` as runs end.

    Step times in seconds, memory in bytes. A row that cannot be read, expressed or replayed in time has the reason.
    """
    rows = read_rows(path)
    answers: list[dict[str, Any]] = []
    runs: dict[Hashable, tuple[RunConfig, list[int]]] = {}
    for index, row in enumerate(rows):
        answer, config = _read(index, row)
        answers.append(answer)
        if config is not None:
            runs.setdefault(_key(config), (config, []))[1].append(index)
    replays = _replay({key: config for key, (config, _) in runs.items()}, workers)
    for done, (key, outcome) in enumerate(replays, 1):
        for index in runs[key][1]:
            own = answers[index]["assumptions"]
            answers[index] |= _scored(outcome, rows[index])
            answers[index]["assumptions"] = list(
                dict.fromkeys([*own, *outcome.get("assumptions", ())])
            )
        if progress is not None:
            progress(done, len(runs))
    return answers


def _read(index: int, row: Row) -> tuple[dict[str, Any], RunConfig | None]:
    """Return a row's answer before its run is replayed, and the run, or None where there is none."""
    answer: dict[str, Any] = {
        "row": index,
        "id": row.get("id") or "",
        "status": "ok",
        "reason": "",
        "source": row.get("source") or "",
        "model": row.get("model") or "",
        "hardware": row.get("hardware") or "",
        "predicted_step_time_s": None,
        "measured_step_time_s": None,
        "low_step_time_s": None,
        "high_step_time_s": None,
        "predicted_peak_memory_bytes": None,
        "measured_peak_memory_bytes": None,
        "predicted_tokens_per_s_per_device": None,
        "assumptions": [],
    }
    try:
        check_cells(row)
        memory = number(row, "measured_mem_gib")
        measured, derived = number(row, "measured_step_time_s"), number(row, "derived_step_time_s")
        answer["measured_step_time_s"] = measured or derived
        answer["measured_peak_memory_bytes"] = None if memory is None else memory * GiB
        config = run_of_row(row)
    except UnsupportedError as error:
        return answer | {"status": "unsupported", "reason": str(error)}, None
    except InputError as error:
        return answer | {"status": "invalid", "reason": str(error)}, None
    except (TypeError, ValueError, OverflowError) as error:
        return answer | {"status": "invalid", "reason": f"cannot be read: {error}"}, None
    return answer | {"assumptions": list(config.assumptions)}, config


def _key(config: RunConfig) -> Hashable:
    """Return what a run's outcome depends on."""
    return (_cluster_key(config), config.model, config.plan)


def _cluster_key(config: RunConfig) -> tuple[Any, ...]:
    spec = config.cluster
    return (
        spec.preset,
        spec.num_devices,
        tuple(sorted((k, str(v)) for k, v in spec.parameters.items())),
    )


def _cost(config: RunConfig) -> float:
    """Return about how long a replay takes: actions of a pipeline."""
    plan = config.plan
    return float(
        plan.num_stages
        * plan.num_microbatches
        * config.model.num_layers
        / plan.num_stages
        * plan.pp
    )


def _replay(
    runs: Mapping[Hashable, RunConfig], workers: int
) -> Iterator[tuple[Hashable, dict[str, Any]]]:
    """Yield each run's key and outcome, as they end; longest batches first."""
    batches = _batches(runs)
    if workers == 1:
        for batch in batches:
            yield from zip(batch, _outcomes([runs[key] for key in batch]), strict=True)
        return
    with ProcessPoolExecutor(max_workers=workers) as pool:
        yield from _gather(pool, batches, runs)


def _gather(
    pool: Executor, batches: Sequence[Sequence[Hashable]], runs: Mapping[Hashable, RunConfig]
) -> Iterator[tuple[Hashable, dict[str, Any]]]:
    """Yield the outcomes of a pool as batches end."""
    waiting = {
        pool.submit(_outcomes, [_plain(runs[key]) for key in batch]): batch for batch in batches
    }
    for future in as_completed(waiting):
        yield from zip(waiting[future], future.result(), strict=True)


def _batches(runs: Mapping[Hashable, RunConfig]) -> list[list[Hashable]]:
    """Return keys in batches of one cluster, the longest first."""
    groups: dict[Hashable, list[Hashable]] = {}
    for key, config in runs.items():
        groups.setdefault(_cluster_key(config), []).append(key)
    cut = [keys[i : i + BATCH] for keys in groups.values() for i in range(0, len(keys), BATCH)]
    return sorted(cut, key=lambda keys: -sum(_cost(runs[key]) for key in keys))


def _plain(config: RunConfig) -> RunConfig:
    """Return a run that another process can be sent (its cluster's parameters as a dict)."""
    return replace(
        config, cluster=replace(config.cluster, parameters=dict(config.cluster.parameters))
    )


def _outcomes(configs: Sequence[RunConfig]) -> list[dict[str, Any]]:
    return [_outcome(config) for config in configs]


def _outcome(config: RunConfig) -> dict[str, Any]:
    """Return what a replay says, or why there is none. Runs in a worker."""
    try:
        with _time_limit(ROW_TIMEOUT):
            return _predicted(config)
    except SimError as error:
        return {"status": "unsupported", "reason": str(error)}
    except Exception as error:  # a bug must not take the other rows with it
        return {"status": "unsupported", "reason": f"failed: {type(error).__name__}: {error}"}


def _predicted(config: RunConfig) -> dict[str, Any]:
    """Return step time, memory and ledger of a run: of the whole step, or of its repeating middle."""
    parts = steady(config)
    if parts is None:
        return _told(simulate_run(config, merged=True))
    shorter = _told(simulate_run(parts.shorter, merged=True))
    longer = _told(simulate_run(parts.longer, merged=True))
    old, new = shorter["ledger"], longer["ledger"]
    ledger = {c: parts.extend(old.get(c, 0.0), new.get(c, 0.0)) for c in {*old, *new}}
    for cause in [c for c, seconds in ledger.items() if seconds < 0.0]:
        # the longer replay has less of it: a pause that a further round turned into one of the middle
        ledger["bubble.steady"] = ledger.get("bubble.steady", 0.0) + ledger.pop(cause)
    counts = [run.plan.num_microbatches for run in (parts.shorter, parts.longer, config)]
    note = f"replayed with {counts[0]} and {counts[1]} microbatches; {counts[2]} follow from the difference"
    return longer | {
        "step_time_s": parts.extend(shorter["step_time_s"], longer["step_time_s"]),
        "ledger": ledger,
        "wall_s": shorter["wall_s"] + longer["wall_s"],
        "assumptions": [*longer["assumptions"], note],
    }


def _told(result: Result) -> dict[str, Any]:
    """Return what a row keeps of a result, without what reading the row assumed; no more is worked out."""
    timeline = result.timeline
    stages = result.memory()
    notes = (*timeline.program.assumptions, *timeline.cluster.assumptions)
    return {
        "step_time_s": timeline.step_time,
        "memory": {kind: max(stage[kind] for stage in stages) for _, kind in MEMORY_KINDS},
        "assumptions": list(dict.fromkeys(notes)),
        "ledger": result.mean,
        "num_events": timeline.num_events,
        "wall_s": result.wall_s,
    }


def _scored(outcome: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """Return an outcome as the fields of a row."""
    if "status" in outcome:
        return dict(outcome)
    kind = _memory_kind(row)
    elsewhere = UNKNOWN_STATES.search(text(row, "zero_stage_or_fsdp").lower())
    step, spread = outcome["step_time_s"], band(category(row))
    tokens = needed(row, "global_batch_sequences") * needed(row, "seq_len") / needed(row, "gpus")
    return {
        "predicted_step_time_s": step,
        "low_step_time_s": step * spread.low,
        "high_step_time_s": step * spread.high,
        "predicted_peak_memory_bytes": None if elsewhere else outcome["memory"][kind],
        "predicted_tokens_per_s_per_device": tokens / step,
        "ledger": outcome["ledger"],
        "num_events": outcome["num_events"],
        "wall_s": outcome["wall_s"],
    }


def _memory_kind(row: Row) -> str:
    """Return which memory a row measured: as its notes say, else what its framework logs."""
    notes = text(row, "notes").lower()
    usual = "reserved_bytes" if habits_of(row)[0].reserved else "peak_bytes"
    return next((kind for pattern, kind in MEMORY_KINDS if re.search(pattern, notes)), usual)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `RowTimeoutError` after some seconds of CPU time of this process."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise RowTimeoutError(f"the replay takes more than {seconds:g} CPU seconds")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
