"""Device: one accelerator, as its data sheet and its measured constants describe it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Device:
    """One accelerator.

    ``peak`` is dense FLOP/s by dtype; ``memory_bytes`` the capacity a program can use;
    ``memory_bandwidth`` bytes/s; ``host_bandwidth`` bytes/s of its link to the host, each
    direction, ``host_memory_bandwidth`` its share of the host memory's (0: not known);
    ``compute_units`` SMs, cores or matrix units, ``calibration`` the measured constants of
    `sim.kernels`, by name. Sources stand in the data file the device was read from.
    """

    name: str
    vendor: str
    kind: str
    peak: Mapping[str, float]
    memory_bytes: float
    memory_bandwidth: float
    compute_units: int
    cache_bytes: float = 0.0
    power: float | None = None
    host_bandwidth: float = 0.0
    host_memory_bandwidth: float = 0.0
    calibration: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
