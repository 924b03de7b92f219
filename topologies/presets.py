"""Presets: machines that exist, as parameters of their family, with sources."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sim.cluster import Cluster
from sim.units import GB, Gbit
from topologies.fat_tree import fat_tree
from topologies.host import Host
from topologies.rack_tree import rack_tree
from topologies.scale_up import single_host


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Preset:
    """A machine: its family (a function of ``num_devices`` and, for servers, a `Host`) and parameters of it."""

    family: Callable[..., Cluster]
    num_devices: int
    max_devices: int = 0
    host: Host | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    source: str = ""


A100 = Host(
    device="a100-80-sxm", scale_up_kind="nvlink3", scale_up_bandwidth=300 * GB, scale_up_links=12,
    scale_up_switches=6, nic="hdr-200", nic_bandwidth=200 * Gbit, pcie="pcie4", pcie_bandwidth=31.5 * GB,
)  # fmt: skip
"""DGX A100: 12 NVLink3 of 25 GB/s, 6 NVSwitches, 8 x 200 Gb/s. NVIDIA DGX A100 user guide."""

H100 = Host(
    device="h100-sxm", scale_up_kind="nvlink4", scale_up_bandwidth=450 * GB, scale_up_links=18,
    scale_up_switches=4, nic="ndr-400", nic_bandwidth=400 * Gbit, pcie="pcie5", pcie_bandwidth=63 * GB,
)  # fmt: skip
"""DGX H100: 18 NVLink4 of 25 GB/s, 4 NVSwitches, 8 x 400 Gb/s. NVIDIA DGX H100 user guide."""

B200 = Host(
    device="b200-sxm", scale_up_kind="nvlink5", scale_up_bandwidth=900 * GB, scale_up_links=18,
    scale_up_switches=2, nic="ndr-400", nic_bandwidth=400 * Gbit, pcie="pcie5", pcie_bandwidth=63 * GB,
)  # fmt: skip
"""DGX B200: 18 NVLink5 of 50 GB/s, 2 NVSwitches, 8 x 400 Gb/s. NVIDIA DGX B200 user guide."""

H800 = replace(H100, device="h800-sxm", scale_up_bandwidth=200 * GB, scale_up_links=8)
"""H800: eight of the eighteen NVLinks. zhebrak/llm-cluster-simulator; SimAI calbusbw.h."""

GPU_CLUSTERS: dict[str, Preset] = {
    "a100-host": Preset(family=single_host, host=A100, num_devices=8, max_devices=8),
    "h100-host": Preset(family=single_host, host=H100, num_devices=8, max_devices=8),
    "h200-host": Preset(
        family=single_host, host=replace(H100, device="h200-sxm"), num_devices=8, max_devices=8
    ),
    "h800-host": Preset(family=single_host, host=H800, num_devices=8, max_devices=8),
    "h20-host": Preset(
        family=single_host, host=replace(H100, device="h20"), num_devices=8, max_devices=8
    ),
    "b200-host": Preset(family=single_host, host=B200, num_devices=8, max_devices=8),
    "a100-superpod": Preset(
        family=fat_tree,
        host=A100,
        num_devices=1120,
        max_devices=16000,
        parameters={"radix": 40},
        source="DGX A100 SuperPOD: 40-port HDR switches, 20 servers a unit, 140 servers",
    ),
    "h100-fat-tree": Preset(
        family=fat_tree, host=H100, num_devices=1024, source="DGX H100 SuperPOD, 64-port NDR"
    ),
    "h200-fat-tree": Preset(
        family=fat_tree, host=replace(H100, device="h200-sxm"), num_devices=1024
    ),
    "h800-fat-tree": Preset(family=fat_tree, host=H800, num_devices=2048),
    "b200-fat-tree": Preset(family=fat_tree, host=B200, num_devices=1024),
    "llama3-roce": Preset(
        family=rack_tree,
        host=replace(H100, nic="roce-400"),
        num_devices=16384,
        max_devices=24576,
        parameters={
            "hosts_per_rack": 2,
            "racks_per_pod": 192,
            "rack_oversubscription": 0.5,
            "oversubscription": 7.0,
        },
        source="Llama 3 paper section 3.3.1; Meta, RDMA over Ethernet for Distributed AI Training at Meta Scale",
    ),
}
"""Machines of NVIDIA devices by name."""
