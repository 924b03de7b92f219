"""Machines of NVIDIA and AMD devices."""

from dataclasses import replace

from sim.units import GB, KILO, Gbit
from topologies.dual_plane import dual_plane
from topologies.fat_tree import fat_tree
from topologies.host import Host
from topologies.nvl72 import nvl72
from topologies.presets import Preset, of_host
from topologies.rack_tree import rack_tree
from topologies.scale_up import single_host

V100 = Host(
    device="v100-32", scale_up="cube_mesh", scale_up_kind="nvlink2", scale_up_bandwidth=150 * GB,
    scale_up_links=6, nic="edr-100", nics=4, nic_bandwidth=100 * Gbit, pcie="pcie3", pcie_bandwidth=15.75 * GB,
)  # fmt: skip
"""DGX-1: hybrid cube mesh, 4 x 100 Gb/s. NVIDIA DGX-1 With Tesla V100 white paper."""

V100_DGX2 = replace(
    V100, devices=16, scale_up="nvswitch", scale_up_switches=12, nics=8
)  # fmt: skip
"""DGX-2: 16 devices on 12 NVSwitches, 8 x 100 Gb/s. NVIDIA DGX-2 data sheet."""

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

H200, H20 = replace(H100, device="h200-sxm"), replace(H100, device="h20")
H800 = replace(H100, device="h800-sxm", scale_up_bandwidth=200 * GB, scale_up_links=8)
"""H800: eight of the eighteen NVLinks. zhebrak/llm-cluster-simulator; SimAI calbusbw.h."""

B200 = Host(
    device="b200-sxm", scale_up_kind="nvlink5", scale_up_bandwidth=900 * GB, scale_up_links=18,
    scale_up_switches=2, nic="ndr-400", nic_bandwidth=400 * Gbit, pcie="pcie5", pcie_bandwidth=63 * GB,
)  # fmt: skip
"""DGX B200: 18 NVLink5 of 50 GB/s, 2 NVSwitches, 8 x 400 Gb/s. NVIDIA DGX B200 user guide."""

B300 = replace(B200, device="b300-sxm", nic="xdr-800", nic_bandwidth=800 * Gbit)
"""DGX B300: 8 x 800 Gb/s. NVIDIA B300 SuperPOD documents."""

GB200 = replace(
    B200, device="gb200", devices=4, domain_devices=72, scale_up_switches=18, nics=4
)  # fmt: skip
"""GB200 NVL72: trays of 4, 18 NVSwitch chips a rack, 4 x 400 Gb/s a tray. NVIDIA GB200 NVL72 pages."""

GB300 = replace(GB200, device="gb300", nic="xdr-800", nic_bandwidth=800 * Gbit)
"""GB300 NVL72: 4 x 800 Gb/s a tray."""

MI300X = Host(
    device="mi300x", scale_up="full_mesh", scale_up_kind="xgmi", scale_up_bandwidth=448 * GB,
    scale_up_links=7, nic="roce-400", nic_bandwidth=400 * Gbit, pcie="pcie5", pcie_bandwidth=63 * GB,
)  # fmt: skip
"""MI300X: one 64 GB/s link to each of seven others, 8 x 400 Gb/s. AMD data sheet."""

MI355X = replace(MI300X, device="mi355x", scale_up_bandwidth=535.5 * GB)
"""MI355X: seven links of 76.5 GB/s. AMD data sheet."""

AWS_P4DE = replace(A100, nic="efa", nics=4, nic_bandwidth=100 * Gbit)
AWS_P5 = replace(H100, nic="efa", nics=32, nic_bandwidth=100 * Gbit)
AWS_P6 = replace(B200, nic="efa", nic_bandwidth=400 * Gbit)
"""AWS EFA: 4 x 100, 32 x 100 and 8 x 400 Gb/s a server (AWS instance pages)."""

SINGLE = {
    "v100-host": V100, "v100-dgx2-host": V100_DGX2, "a100-host": A100,
    "a100-40-host": replace(A100, device="a100-40-sxm"), "h100-host": H100, "h200-host": H200,
    "h800-host": H800, "h20-host": H20, "b200-host": B200, "b300-host": B300, "mi300x-host": MI300X,
    "mi355x-host": MI355X,
}  # fmt: skip
"""Servers alone, by name."""

META = "Llama 3 paper, section 3.3.1; Meta, RDMA over Ethernet for Distributed AI Training at Meta Scale"
SUPERPOD = "NVIDIA DGX SuperPOD reference architectures"

GPU_CLUSTERS: dict[str, Preset] = {
    **{
        name: of_host(single_host, host, host.devices, host.devices)
        for name, host in SINGLE.items()
    },
    "v100-cluster": of_host(fat_tree, V100, 256, 11664, "36-port EDR switches", radix=36),
    "v100-dgx2-cluster": of_host(fat_tree, V100_DGX2, 512, 11664, "36-port EDR switches", radix=36),
    "a100-superpod": of_host(fat_tree, A100, 1120, 16000, SUPERPOD, radix=40),
    "jean-zay-a100": of_host(
        rack_tree,
        replace(A100, nic="opa100", nics=4, nic_bandwidth=100 * Gbit),
        384,
        416,
        "Jean Zay: 52 servers of 8 A100, 4 x 100 Gb/s Omni-Path (BLOOM paper)",
    ),
    "h100-fat-tree": of_host(fat_tree, H100, 1024, 0, SUPERPOD),
    "h200-fat-tree": of_host(fat_tree, H200, 1024, 0, SUPERPOD),
    "h800-fat-tree": of_host(fat_tree, H800, 2048, 0, "DeepSeek-V3 report: 8 x 400 Gb/s"),
    "h20-fat-tree": of_host(fat_tree, H20, 1024),
    "b200-fat-tree": of_host(fat_tree, B200, 1024, 0, SUPERPOD),
    "b300-fat-tree": of_host(fat_tree, B300, 1152, 0, SUPERPOD, radix=144),
    "gb200-nvl72": of_host(
        nvl72,
        GB200,
        72,
        0,
        "NVIDIA GB200 NVL72; 145 kW a rack (SemiAnalysis)",
        hosts_per_unit=18,
        rack_power=145 * KILO,
    ),
    "gb300-nvl72": of_host(
        nvl72,
        GB300,
        72,
        0,
        "NVIDIA GB300 NVL72; 135 kW a rack in NVIDIA's planning example",
        radix=144,
        rack_power=135 * KILO,
    ),
    "llama3-roce": of_host(
        rack_tree,
        replace(H100, nic="roce-400"),
        16384,
        0,
        META,
        hosts_per_rack=2,
        racks_per_pod=192,
        rack_oversubscription=0.5,
        oversubscription=7.0,
    ),
    "hpn-h800": of_host(
        dual_plane,
        replace(H800, nic="roce-400"),
        1024,
        0,
        "Alibaba HPN 7.0 (SIGCOMM 2024); SimAI HPN template",
        uplink_bandwidth=400 * Gbit,
    ),
    "mi300x-fat-tree": of_host(fat_tree, MI300X, 1024),
    "mi355x-fat-tree": of_host(fat_tree, MI355X, 1024),
    "aws-p4de": of_host(fat_tree, AWS_P4DE, 512, 0, "AWS p4de"),
    "aws-p5": of_host(fat_tree, AWS_P5, 1024, 0, "AWS p5"),
    "aws-p6-b200": of_host(fat_tree, AWS_P6, 1024, 0, "AWS p6-b200"),
    "gcp-a3-mega": of_host(
        fat_tree, replace(H100, nic="tcpxo", nic_bandwidth=200 * Gbit), 1024, 0, "GCP A3 Mega"
    ),
    "gcp-a4": of_host(fat_tree, replace(B200, nic="roce-400"), 1024, 0, "GCP A4"),
    "oci-a100": of_host(
        fat_tree,
        replace(A100, nic="roce-100", nics=16, nic_bandwidth=100 * Gbit),
        512,
        0,
        "OCI BM.GPU4.8: 16 x 100 Gb/s",
    ),
    "oci-h100": of_host(fat_tree, replace(H100, nic="roce-400"), 1024, 0, "OCI 8 x 400 Gb/s"),
}
"""Machines of NVIDIA and AMD devices by name."""
