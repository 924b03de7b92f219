"""Score the collective model: every row of a table of measured collectives, predicted and measured.

The columns are those of the reference table: ``source hardware n_devices n_nodes collective bytes time_us ...``. A row
that cannot be read or expressed is reported with its reason; the others go on.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.collective_hardware import UnsupportedError, build, read_hardware
from experiments.row_table import check_cells, read_rows
from experiments.row_text import text
from sim.collectives import KINDS, Communicator
from sim.errors import InputError, unknown
from sim.units import us

Row = Mapping[str, str]
SPELLINGS = {"sendrecv": "send_recv", "alltoall": "all_to_all", "allreduce": "all_reduce"}


EXPERT_KERNELS = frozenset({"ep_dispatch", "ep_combine"})
"""Expert-parallel kernels (DeepEP and the like): an all-to-all by another kernel than the library's."""


def score_collectives(path: str | Path) -> list[dict[str, Any]]:
    """Return a dictionary a row: predicted and measured seconds, or why there is none.

    ``status`` is ``ok``, ``unsupported`` (reads well, cannot be predicted) or ``invalid``; ``row`` counts from 0.
    """
    known: dict[tuple[str, int, int], Communicator] = {}
    return [_score(index, row, known) for index, row in enumerate(read_rows(path))]


def _score(index: int, row: Row, known: dict[tuple[str, int, int], Communicator]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "row": index,
        "status": "ok",
        "reason": "",
        "predicted_time_s": None,
        "measured_time_s": None,
        "hardware": row.get("hardware", ""),
        "collective": row.get("collective", ""),
        "nbytes": None,
    }
    try:
        check_cells(row)
        time, result["nbytes"] = amount(row, "time_us"), amount(row, "bytes")
        result["measured_time_s"] = None if time is None else time * us
        result |= predict(row, known)
    except UnsupportedError as error:
        result |= {"status": "unsupported", "reason": str(error)}
    except InputError as error:
        result |= {"status": "invalid", "reason": str(error)}
    return result


def predict(row: Row, known: dict[tuple[str, int, int], Communicator]) -> dict[str, Any]:
    """Return the predicted seconds of a row and the algorithm; `known` keeps communicators between rows."""
    kind, algorithm, communicator = read_row(row, known)
    nbytes = size_of(row)
    plan = communicator.plan(kind, nbytes, algorithm)
    return {"predicted_time_s": plan.alone, "algorithm": plan.algorithm, "protocol": plan.protocol}


def read_row(
    row: Row, known: dict[tuple[str, int, int], Communicator]
) -> tuple[str, str, Communicator]:
    """Return the kind, the algorithm to ask for and the communicator of a row."""
    spelled = row.get("collective", "").strip()
    kind = SPELLINGS.get(spelled, spelled)
    expert = kind in EXPERT_KERNELS
    kind = "all_to_all" if expert else kind
    if kind not in KINDS:
        raise InputError(unknown("collective", spelled, [*KINDS, *SPELLINGS]))
    hardware = row.get("hardware", "")
    machine = read_hardware(hardware)
    n, nodes = _count(row, "n_devices"), _count(row, "n_nodes")
    key = (hardware, n, nodes)
    if key not in known:
        known[key] = Communicator(*build(machine, n, nodes))
    algorithm = "ep" if expert else machine.algorithm if kind == "all_reduce" else "auto"
    return kind, algorithm, known[key]


def size_of(row: Row) -> float:
    """Return the bytes a row's links carry: of every device of a chip that runs at once."""
    nbytes = amount(row, "bytes")
    if nbytes is None:
        raise UnsupportedError("bytes is blank: a rate alone says no time")
    return nbytes * read_hardware(row.get("hardware", "")).copies


def amount(row: Row, key: str) -> float | None:
    """Return a number above zero, or None where blank. Raises `InputError` for anything else."""
    field = text(row, key)
    if not field:
        return None
    try:
        value = float(field)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise InputError(f"{key}={field!r} must be a number above zero; correct the row")
    return value


def _count(row: Row, key: str) -> int:
    try:
        value = amount(row, key)
    except InputError:
        value = None
    if value is None or value != int(value):
        raise InputError(f"{key}={row.get(key)!r} must be a whole number above zero")
    return int(value)
