"""Host: a server, what joins its devices, and the adapters that leave it."""

from dataclasses import dataclass

import numpy as np

from sim.device import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A server.

    ``devices`` in a server, ``domain_devices`` in its scale-up domain (0: the server; 72 on NVL72). ``scale_up`` is a
    wiring of `topologies.scale_up`; ``scale_up_bandwidth`` raw bytes/s of one device, one way, over ``scale_up_links``
    cables and ``scale_up_switches`` switches. ``nics`` adapters of ``nic_bandwidth`` bytes/s a server.
    """

    device: str | Device
    devices: int = 8
    domain_devices: int = 0
    scale_up: str = "nvswitch"
    scale_up_kind: str
    scale_up_bandwidth: float
    scale_up_links: int
    scale_up_switches: int = 0
    nic: str = "ndr-400"
    nics: int = 8
    nic_bandwidth: float = 0.0
    pcie: str = "pcie5"
    pcie_bandwidth: float = 0.0

    @property
    def domain_size(self) -> int:
        """Devices of a scale-up domain."""
        return self.domain_devices or self.devices

    @property
    def device_bandwidth(self) -> float:
        """Raw bytes/s of the adapters, a device, one way."""
        return self.nic_bandwidth * self.nics / self.devices


def hosts_of(host: Host, num_devices: int) -> np.ndarray:
    """Return the server of each device: servers are filled one after the other."""
    return np.arange(num_devices) // host.devices
