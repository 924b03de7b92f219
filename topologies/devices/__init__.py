"""Devices: one TOML a device, read on demand.

A name is matched by its parts: family (``h100``), memory in GB (``80``), form (``sxm``, ``pcie``) and unit (``core``,
``gcd``). ``H100-80GB``, ``H100-SXM`` and ``h100-sxm`` are one device. Of several that match, the first in `DEVICES`.
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sim.device import Device
from sim.errors import TopologyError, unknown
from sim.units import GB, MB, TFLOP, GiB

DEVICES: tuple[str, ...] = (
    "v100-32", "a100-80-sxm", "a100-40-sxm", "a100-pcie", "a800-80-sxm",
    "h100-sxm", "h100-pcie", "h100-96", "h800-sxm", "h20", "gh200", "h200-sxm",
    "b200-sxm", "b300-sxm", "gb200", "gb300", "rubin-sxm",
    "mi250x-gcd", "mi250x", "mi300x", "mi325x", "mi350x", "mi355x",
    "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-7x", "tpu-7x-core",
    "ascend-910b", "ascend-910c", "ascend-950pr", "ascend-950dt",
    "trainium1-core", "trainium2", "trainium3", "gaudi2", "gaudi3",
)  # fmt: skip
"""Names of the devices that ship; of a family, the one a bare name means comes first."""

FAMILY = re.compile(
    r"(?<![a-z0-9])(?:"
    r"(?P<gpu>(?:gb|gh|[abhv])\d{2,3}|mi\d{3}x?|rubin)"
    r"|(?P<ascend>(?:ascend)?\s*9[15]0[a-z]{0,2})"
    r"|(?:tpu\s*v?\s*)(?P<tpu>\d[a-z]?)"
    r"|(?:trainium|trn)\s*(?P<trainium>\d)"
    r"|(?:gaudi)\s*(?P<gaudi>\d)"
    r")(?![a-z0-9])"
)
MEMORY = re.compile(r"(?<![\d.a-z])(\d{2,3})\s*(?:gi?b)?(?![\d.a-z])")
FORM = re.compile(r"(?<![a-z])(sxm|pcie|nvl)(?![a-z])")
UNIT = re.compile(r"(?<![a-z])(core|gcd)(?![a-z])")
SLACK = 6.0
"""GB by which a stated memory may differ from the nominal one (95 and 96, 180 and 192 stated as 186)."""


class Parts(NamedTuple):
    """The parts of a device's name; empty where not stated."""

    family: str
    memory: float
    form: str
    unit: str


def parse(name: str) -> Parts | None:
    """Return the parts of ``name``, or None where no family is recognised."""
    text = re.sub(r"[-_/(),]+", " ", str(name).lower()).replace(" lite", "e").strip()
    found = FAMILY.search(text)
    if not found:
        return None
    group = found.lastgroup or ""
    family = re.sub(r"\s+", "", found.group(group))
    if group == "ascend":
        family = family.removeprefix("ascend")
    if group != "gpu":
        family = f"{group} {family}"
    rest = text[found.end() :]
    memory, form, unit = MEMORY.search(rest), FORM.search(rest), UNIT.search(rest)
    return Parts(
        family,
        float(memory[1]) if memory else 0.0,
        form[1] if form else "",
        unit[1] if unit else "",
    )


@cache
def _table(name: str) -> dict[str, Any]:
    """Return the parsed file of the device with this canonical name."""
    with (Path(__file__).parent / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)


def _flatten(table: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Return nested tables as one, keys joined by dots."""
    flat: dict[str, float] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        elif isinstance(value, int | float):
            flat[prefix + key] = float(value)
    return flat


def _calibration(name: str) -> dict[str, float]:
    """Return the constants of a device: those it inherits, then its own."""
    table = _table(name)
    parent = table.get("inherits")
    inherited = _calibration(parent) if parent else {}
    own = _flatten(table.get("calibration", {})) | _flatten(table.get("fitted", {}))
    return inherited | own


@cache
def _load(name: str) -> Device:
    """Return the device with this canonical name."""
    table = _table(name)
    sheet = table["sheet"]
    return Device(
        name=name,
        vendor=table["vendor"],
        kind=table["kind"],
        peak={dtype: value * TFLOP for dtype, value in table["peak_tflops"].items()},
        memory_bytes=sheet["usable_GiB"] * GiB,
        memory_bandwidth=sheet["bandwidth_GBps"] * GB,
        compute_units=sheet["compute_units"],
        cache_bytes=sheet.get("cache_MB", 0.0) * MB,
        power=sheet.get("power_W"),
        host_bandwidth=sheet.get("host_GBps", 0.0) * GB,
        host_memory_bandwidth=sheet.get("host_memory_GBps", 0.0) * GB,
        calibration=_calibration(name),
        source=table["source"],
    )


def _matches(wanted: Parts, name: str) -> bool:
    """Return whether every part that is stated agrees with the device of this canonical name."""
    own = parse(name)
    if own is None or own.family != wanted.family:
        return False
    if wanted.unit != own.unit or (wanted.form and own.form and wanted.form != own.form):
        return False
    if not wanted.memory:
        return True
    nominal: float = _table(name)["sheet"]["memory_GB"]
    return abs(nominal - wanted.memory) <= SLACK


@cache
def canonical(name: str) -> str:
    """Return the canonical name of the device that ``name`` means.

    Raises `TopologyError` with near names for a device that does not ship.
    """
    text = str(name).strip().lower()
    if text in DEVICES:
        return text
    wanted = parse(text)
    if wanted is not None:
        for unit in (wanted.unit, "core", "gcd"):
            for candidate in DEVICES:
                if _matches(wanted._replace(unit=unit), candidate):
                    return candidate
    raise TopologyError(unknown("device", name, DEVICES))


def device(name: str) -> Device:
    """Return the device called ``name`` (any case; matched by its parts).

    >>> device("H100-80GB").name
    'h100-sxm'
    """
    return _load(canonical(name))
