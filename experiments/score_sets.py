"""Sets of a scored table: which rows count, which belong together, which are judged apart."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from experiments.row_text import Row, text
from sim.units import GFLOP, TFLOP, MiB, us

Keep = Callable[[Row], bool]

TRUSTED = ("A", "B", "")
"""How far a row is trusted; tables without the column are."""
ONE_HOST = 8
"""Devices of the usual server: up to as many is one host."""
LONG_CONTEXT = 32768
"""Tokens of a sequence from which a context is called long."""


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of table: its ``scorer`` (module:function), what it measures, columns that make a group, and its sets."""

    scorer: str
    quantities: tuple[str, ...]
    group: tuple[str, ...]
    sets: Mapping[str, Keep]
    counts: Keep
    family: str


def value(row: Row, column: str) -> float:
    """Return a number, 0 where there is none."""
    try:
        return float(row.get(column) or 0.0)
    except ValueError:
        return 0.0


def clean(row: Row) -> bool:
    """Whether a run counts: trusted, no flag, no repetition, its time measured and not derived from FLOP/s.

    >>> clean({"trust": "A"}), clean({"trust": "C"}), clean({"trust": "A", "time_kind": "inferred_from_flops"})
    (True, False, False)
    """
    return (
        text(row, "trust") in TRUSTED
        and not text(row, "flags")
        and not text(row, "dup_of")
        and text(row, "time_kind") != "inferred_from_flops"
    )


def platform(row: Row) -> str:
    """Return ``tpu``, ``ascend``, ``trainium`` or ``gpu``."""
    hardware = text(row, "hardware").lower()
    known = {"tpu": "tpu", "ascend": "ascend", "trn": "trainium", "trainium": "trainium"}
    return next((name for word, name in known.items() if word in hardware), "gpu")


def is_moe(row: Row) -> bool:
    """Whether the model has experts."""
    return value(row, "n_experts") > 1


def family(identifier: str) -> str:
    """Return the family of a row's id: what comes before its number.

    >>> family("bloom-prequel-012")
    'bloom-prequel'
    """
    head, _, tail = identifier.rpartition("-")
    return head if head and tail.isdigit() else identifier


def category(row: Row) -> str:
    """Return the set a run is judged with.

    >>> category({"hardware": "H100-80GB", "gpus": "16.0"}), category({"hardware": "TPU v4", "n_experts": "8"})
    ('dense, two hosts and more', 'TPU')
    """
    kind = platform(row)
    if kind != "gpu":
        return NAMES[kind]
    if is_moe(row):
        return "MoE"
    return "dense, two hosts and more" if value(row, "gpus") > ONE_HOST else "dense, one host"


NAMES = {"tpu": "TPU", "ascend": "Ascend", "trainium": "Trainium"}
CATEGORIES = ("dense, two hosts and more", "dense, one host", "MoE", *NAMES.values())


def _is(name: str) -> Keep:
    return lambda row: category(row) == name


def _long(row: Row) -> bool:
    return value(row, "seq_len") >= LONG_CONTEXT


def _large_kernel(row: Row) -> bool:
    """Whether a kernel has 1 GFLOP and more."""
    seconds = value(row, "time_us") * us
    flops = 2.0 * value(row, "m") * value(row, "n") * value(row, "k")
    flops *= max(1.0, value(row, "batch")) * max(1.0, value(row, "groups"))
    flops = value(row, "tflops") * TFLOP * seconds if value(row, "tflops") and seconds else flops
    return (
        flops >= GFLOP and "model" not in text(row, "kernel") and "suspect" not in text(row, "note")
    )


def _sized(low: float, high: float) -> Keep:
    return lambda row: low <= value(row, "bytes") < high


def _attention(row: Row) -> bool:
    return text(row, "kernel").startswith("attention")


def _memory(row: Row) -> bool:
    return text(row, "kernel").startswith(("mem", "stream"))


def every(_row: Row) -> bool:
    """Keep any row."""
    return True


TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "runs": Table(
            "experiments.score_runs:score_runs",
            ("step_time_s", "peak_memory_bytes"),
            ("source", "model", "hardware"),
            {**{name: _is(name) for name in CATEGORIES}, "long context": _long},
            clean,
            "id",
        ),
        "collectives": Table(
            "experiments.score_collectives:score_collectives",
            ("time_s",),
            ("source", "hardware", "n_devices", "n_nodes", "collective"),
            {
                "16 MiB and more": _sized(16 * MiB, float("inf")),
                "1 to 16 MiB": _sized(MiB, 16 * MiB),
                "less than 1 MiB": _sized(0.0, MiB),
            },
            every,
            "source",
        ),
        "kernels": Table(
            "experiments.score_kernels:score_kernels",
            ("time_s",),
            ("source", "device", "kernel", "dtype", "n", "k"),
            {"1 GFLOP and more": _large_kernel, "attention": _attention, "memory": _memory},
            every,
            "source",
        ),
    }
)
"""Kind of a table -> how it is scored and judged."""
