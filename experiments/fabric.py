"""Fabric: the networks studies compare, as built and with every device injecting equally fast."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.collective_command import bus_factor
from sim.cluster import Cluster
from sim.collectives import CollectivePlan, Communicator
from sim.units import GB
from topologies import cluster

EQUAL_BANDWIDTH = 400 * GB
"""Bytes/s a device injects, one way and raw, where fabrics are compared at equal speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """A network: the preset it is built as, how it is used, and what makes it inject `EQUAL_BANDWIDTH`."""

    label: str
    preset: str
    built: Mapping[str, Any] = field(default_factory=dict)
    equal: Mapping[str, Any] = field(default_factory=dict)

    def machine(self, num_devices: int, *, equal: bool = False) -> Cluster:
        """Return so many devices of it, as built or at equal speed."""
        return cluster(self.preset, num_devices, **self.built, **(self.equal if equal else {}))


FABRICS: dict[str, Fabric] = {
    "fat tree": Fabric(
        label="NVLink hosts + fat tree (H100)",
        preset="h100-fat-tree",
        equal={"scale_up_bandwidth": EQUAL_BANDWIDTH, "nic_bandwidth": EQUAL_BANDWIDTH},
    ),
    "rack switch": Fabric(
        label="NVL72 racks + fat tree (GB200)",
        preset="gb200-nvl72",
        built={"used_per_domain": 64},
        equal={"scale_up_bandwidth": EQUAL_BANDWIDTH, "nic_bandwidth": EQUAL_BANDWIDTH},
    ),
    "torus": Fabric(
        label="3D torus (TPU v5p)",
        preset="tpu-v5p",
        equal={"link_bandwidth": EQUAL_BANDWIDTH / 6, "dcn_bandwidth": EQUAL_BANDWIDTH},
    ),
    "optical": Fabric(
        label="all-optical (CloudMatrix 384)",
        preset="cloudmatrix-384",
        equal={"scale_up_bandwidth": EQUAL_BANDWIDTH, "nic_bandwidth": EQUAL_BANDWIDTH},
    ),
}
"""By family. A torus device has six links, each a sixth of what it injects; of a rack 64 of 72 devices are used."""


@lru_cache(maxsize=64)
def communicator(family: str, num_devices: int, equal: bool) -> Communicator:
    """Return the communicator of all devices of a fabric."""
    machine = FABRICS[family].machine(num_devices, equal=equal)
    return Communicator(machine, np.arange(num_devices))


def plan(
    family: str, kind: str, num_devices: int, nbytes: float, *, equal: bool = False
) -> CollectivePlan:
    """Return how a collective over all devices of a fabric runs there."""
    return communicator(family, num_devices, equal).plan(kind, nbytes)


def busbw_row(
    family: str, kind: str, num_devices: int, nbytes: float, *, equal: bool
) -> dict[str, object]:
    """Return one row of a table: fabric, devices, algorithm, seconds, bus bandwidth (GB/s)."""
    chosen = plan(family, kind, num_devices, nbytes, equal=equal)
    return {
        "speed": "equal" if equal else "as built",
        "fabric": family,
        "preset": FABRICS[family].preset,
        "devices": num_devices,
        "algorithm": chosen.algorithm,
        "time_s": chosen.alone,
        "busbw_GBps": nbytes / chosen.alone * bus_factor(kind, num_devices) / GB,
    }
