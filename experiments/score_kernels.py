"""Score the kernel model: every row of a table of measured kernels, predicted and measured.

The columns are those of the reference table: ``device kernel dtype m n k groups batch seqlen heads head_dim causal
pass tflops bytes time_us note``. Text fields are read by their parts. A row that cannot be read or expressed is
reported with its reason; the others go on.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.row_table import check_cells, read_rows
from experiments.row_text import flag
from sim.device import Device
from sim.errors import InputError
from sim.kernels import kernel_time
from sim.kernels.attention import unfused
from sim.kernels.shapes import DTYPE_BYTES, Attention, Gemm, GroupedGemm, Kernel, Memory
from sim.units import TFLOP, us
from topologies.devices import device as load_device

Row = Mapping[str, str]


class UnsupportedError(InputError):
    """A row that reads well but that no kernel model expresses."""


def number(row: Row, key: str, default: float | None = None) -> float:
    """Return a number of the row; ``default`` where the field is blank.

    Raises `InputError` where it is text, not finite, not positive, or blank without a default.
    """
    text = (row.get(key) or "").strip()
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{key}={text!r} is not a number; write one, as 4096") from None
    if not 0.0 < value < float("inf"):
        raise InputError(f"{key}={text} must be positive and finite")
    return value


def whole(row: Row, key: str, default: float | None = None) -> int:
    """Return a whole number of the row."""
    value = number(row, key, default)
    if value != int(value):
        raise InputError(f"{key}={value:g} must be a whole number")
    return int(value)


def counts(row: Row, key: str) -> tuple[int, int]:
    """Return the pair a field states: ``16q/2kv``, ``192qk/128v``, or one number for both."""
    text = (row.get(key) or "").strip()
    found = [float(part) for part in re.findall(r"-?\d+(?:\.\d+)?", text.replace("MLA-", ""))]
    if not found or len(found) > 2 or min(found) < 1 or any(part % 1 for part in found):
        raise InputError(
            f"{key}={text!r} is not one or two counts; write 32, 16q/2kv or 192qk/128v"
        )
    return int(found[0]), int(found[-1])


def dtype_of(row: Row) -> str:
    """Return the dtype of the row."""
    dtype = (row.get("dtype") or "").strip().lower()
    if dtype not in DTYPE_BYTES:
        known = ", ".join(sorted(DTYPE_BYTES))
        raise InputError(f"dtype={dtype!r} is unknown; choose from {known}")
    return dtype


OUTPUT = re.compile(r"\bout=(?:bf|fp|f)(\d+)|main_grad (?:bf|fp|f)(\d+)")


def output_bytes(row: Row, dtype: str) -> float:
    """Return the bytes of an output value: as the note says, else fp32 of wide inputs and bf16 of narrow ones."""
    found = OUTPUT.search(row.get("note") or "")
    if found:
        return float(found[1] or found[2]) / 8.0
    return max(2.0, DTYPE_BYTES[dtype])


def gemm(row: Row) -> tuple[Kernel, ...]:
    """Return the product of a ``gemm`` row."""
    dtype = dtype_of(row)
    return (
        Gemm(
            m=whole(row, "m"),
            n=whole(row, "n"),
            k=whole(row, "k"),
            batch=whole(row, "batch", 1),
            dtype=dtype,
            out_bytes=output_bytes(row, dtype),
            accumulate="accumulate=true" in (row.get("note") or "").lower(),
        ),
    )


def grouped_gemm(row: Row) -> tuple[Kernel, ...]:
    """Return the grouped product of a ``grouped_gemm`` row; ``m`` is rows a group."""
    dtype = dtype_of(row)
    wgrad = (row.get("pass") or "").strip().endswith("_w")
    return (
        GroupedGemm(
            groups=whole(row, "groups"),
            m=number(row, "m"),
            n=whole(row, "n"),
            k=whole(row, "k"),
            dtype=dtype,
            out_bytes=output_bytes(row, dtype) if wgrad else 2.0,
            wgrad=wgrad,
        ),
    )


def attention(row: Row) -> tuple[Kernel, ...]:
    """Return the attention kernels of a row: one a direction, or the ops of unfused attention."""
    implementation = row["kernel"].strip().lower().split("_", 1)[1]
    heads, kv_heads = counts(row, "heads")
    head_dim, v_head_dim = counts(row, "head_dim")
    seq = whole(row, "seqlen")
    directions = [part for part in ("fwd", "bwd") if part in (row.get("pass") or "").lower()]
    if not directions:
        raise UnsupportedError(f"pass={row.get('pass')!r} names neither fwd nor bwd")
    kernels = tuple(
        Attention(
            batch=whole(row, "batch", 1),
            heads=heads,
            kv_heads=kv_heads,
            seq_q=seq,
            seq_kv=seq,
            head_dim=head_dim,
            v_head_dim=v_head_dim,
            causal=bool(flag(row, "causal")),
            direction=direction,
            dtype=dtype_of(row),
            implementation=implementation,
        )
        for direction in directions
    )
    if implementation == "unfused":
        return tuple(part for kernel in kernels for part in unfused(kernel))
    return kernels


PLAIN = ("copy", "add", "mul", "triad", "dot")
"""Kinds of memory kernel that only stream."""


def memory_kind(name: str) -> str:
    """Return the kind of a ``mem_*`` or ``stream_*`` kernel.

    Norms and activations of the tables come from a serving framework, whose kernels reach a third to a
    half of the bandwidth: a kind of their own, no model of a training framework's.
    """
    word = name.split("_", 1)[1]
    if "norm" in word:
        return "serving_norm"
    return "serving_activation" if "act" in word else word


def memory(row: Row) -> tuple[Kernel, ...]:
    """Return the memory kernel of a ``mem_*`` or ``stream_*`` row."""
    if not (row.get("bytes") or "").strip():
        raise UnsupportedError("states a rate but no bytes: no time to compare")
    return (Memory(kind=memory_kind(row["kernel"]), nbytes=number(row, "bytes")),)


def sparse(row: Row) -> tuple[Kernel, ...]:
    """Refuse sparse attention: the table does not state how many keys a query reads."""
    raise UnsupportedError(f"{row['kernel']}: keys a query reads are not stated")


READERS: tuple[tuple[str, Callable[[Row], tuple[Kernel, ...]]], ...] = (
    ("gemm", gemm),
    ("grouped_gemm", grouped_gemm),
    ("attention_sparse", sparse),
    ("attention", attention),
    ("mem", memory),
    ("stream", memory),
)
"""Prefix of the ``kernel`` column -> how the row is read; the first that fits."""


def kernels_of(row: Row) -> tuple[Kernel, ...]:
    """Return the kernels a row measures, run one after the other."""
    name = (row.get("kernel") or "").strip().lower()
    if not name:
        raise InputError("kernel is blank; name one, as gemm")
    for prefix, reader in READERS:
        if name.startswith(prefix):
            return reader({**row, "kernel": name})
    known = ", ".join(prefix for prefix, _ in READERS)
    raise UnsupportedError(f"kernel {name!r} is not modelled; kernels start with {known}")


def flops_of(row: Row, kernels: tuple[Kernel, ...]) -> float:
    """Return the FLOPs a row's TFLOP/s counts (of attention: the useful ones, also when it runs unfused)."""
    if (row.get("kernel") or "").lower().startswith("attention_unfused"):
        fused = attention({**row, "kernel": "attention_fused"})
        return sum(kernel.flops for kernel in fused)
    return sum(kernel.flops for kernel in kernels)


def measured_time(row: Row, kernels: tuple[Kernel, ...]) -> float:
    """Return the measured seconds: ``time_us``, else FLOPs / ``tflops``."""
    if (row.get("time_us") or "").strip():
        return number(row, "time_us") * us
    if not (row.get("tflops") or "").strip():
        raise UnsupportedError("states neither time_us nor tflops: nothing to compare")
    return flops_of(row, kernels) / (number(row, "tflops") * TFLOP)


def score_row(index: int, row: Row, load: Callable[[str], Device] = load_device) -> dict[str, Any]:
    """Return one row of the scoreboard; never raises for what the row says."""
    answer: dict[str, Any] = {
        "row": index,
        "device": row.get("device") or "",
        "kernel": row.get("kernel") or "",
        "dtype": row.get("dtype") or "",
        "status": "ok",
        "reason": "",
        "predicted_time_s": None,
        "measured_time_s": None,
    }
    try:
        check_cells(row)
        missing = [key for key in ("device", "kernel") if row.get(key) is None]
        if missing:
            raise InputError(f"column {' and '.join(missing)} is missing; the table needs it")
        device = load(row["device"])
        kernels = kernels_of(row)
        answer["measured_time_s"] = measured_time(row, kernels)
        answer["predicted_time_s"] = sum(kernel_time(kernel, device) for kernel in kernels)
    except UnsupportedError as error:
        answer |= {"status": "unsupported", "reason": str(error)}
    except InputError as error:
        answer |= {"status": "invalid", "reason": str(error)}
    except (TypeError, ValueError, OverflowError) as error:
        answer |= {"status": "invalid", "reason": f"cannot be read: {error}"}
    return answer


def score_kernels(path: str | Path) -> list[dict[str, Any]]:
    """Return one dict a row of the CSV at ``path``, in its order."""
    return [score_row(index, row) for index, row in enumerate(read_rows(path))]
