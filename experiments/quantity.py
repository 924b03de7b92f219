"""Quantities as people write them: ``1GiB``, ``400Gbit/s``, ``5us``, ``90TFLOP/s``, or a plain number."""

import re
from collections.abc import Mapping

from sim.errors import InputError
from sim.units import (
    GB,
    GIGA,
    KB,
    KILO,
    MB,
    MEGA,
    TB,
    TERA,
    Gbit,
    GiB,
    KiB,
    MiB,
    TiB,
    day,
    hour,
    km,
    minute,
    ms,
    ns,
    us,
)

_BIT = Gbit / GIGA
UNITS: Mapping[str, float] = {
    "B": 1.0, "kB": KB, "KB": KB, "MB": MB, "GB": GB, "TB": TB,
    "KiB": KiB, "MiB": MiB, "GiB": GiB, "TiB": TiB,
    "bit": _BIT, "kbit": _BIT * KILO, "Mbit": _BIT * MEGA, "Gbit": Gbit, "Tbit": _BIT * TERA,
    "Kb": _BIT * KILO, "Mb": _BIT * MEGA, "Gb": Gbit, "Tb": _BIT * TERA,
    "s": 1.0, "ms": ms, "us": us, "µs": us, "ns": ns, "min": minute, "h": hour, "d": day, "m": 1.0, "km": km,
    "FLOP": 1.0, "MFLOP": MEGA, "GFLOP": GIGA, "TFLOP": TERA, "PFLOP": TERA * KILO,
}  # fmt: skip
"""Base units (bytes, seconds, metres, FLOPs) in one unit of each spelling; ``/s`` or ``ps`` may follow."""

_TEXT = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ]*)(/s)?\s*")


def parse_quantity(text: str, what: str = "value") -> float:
    """Return a written quantity in base units (bytes, bytes/s, seconds, FLOPs). Raises `InputError`.

    >>> parse_quantity("400Gbit/s"), parse_quantity("8KiB"), parse_quantity("250")
    (50000000000.0, 8192.0, 250.0)
    """
    found = _TEXT.fullmatch(text)
    if not found:
        raise InputError(
            f"{what}={text!r} is no number; write one, or a number and a unit such as 1GiB, 400Gbit/s or 5us"
        )
    number, unit = found[1], found[2]
    if unit.endswith("ps") and unit not in UNITS:
        unit = unit.removesuffix("ps")
    if unit in ("k", "K", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"):
        raise InputError(
            f"{what}={text!r} is ambiguous: bytes or bits? Write {number}{unit}B, or {number}{unit[0]}bit/s"
            + (f" ({number}{unit}iB if binary)" if not unit.endswith("i") else "")
        )
    if unit and unit not in UNITS:
        raise InputError(f"{what}={text!r} has an unknown unit {unit!r}; known: {', '.join(UNITS)}")
    return float(number) * (UNITS[unit] if unit else 1.0)


def looks_like_quantity(text: str) -> bool:
    """Whether a text is a number, with or without a unit (known, or ambiguous and thus to be refused)."""
    try:
        parse_quantity(text)
    except InputError as problem:
        return "ambiguous" in str(problem)
    return True
