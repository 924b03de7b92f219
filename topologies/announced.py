"""Devices announced without a full data sheet: good for networks, not for kernels.

Peaks that are not published are absent, so a step that computes in them is refused.
"""

from sim.device import Device
from sim.units import GB, MB, TFLOP

SOURCE = "Google announcement and trade press, April 2026; bf16 and fp8 peaks not published"

ANNOUNCED: dict[str, Device] = {
    "tpu-8t": Device(
        name="tpu-8t",
        vendor="google",
        kind="tpu",
        peak={"fp4": 12600 * TFLOP},
        memory_bytes=216 * GB,
        memory_bandwidth=6500 * GB,
        compute_units=1,
        cache_bytes=128 * MB,
        source=SOURCE,
    ),
    "tpu-8i": Device(
        name="tpu-8i",
        vendor="google",
        kind="tpu",
        peak={"fp4": 10100 * TFLOP},
        memory_bytes=288 * GB,
        memory_bandwidth=8600 * GB,
        compute_units=1,
        cache_bytes=384 * MB,
        source=SOURCE,
    ),
}
"""Announced devices by name."""
