"""Machines of TPUs, Ascend NPUs, Trainium and Gaudi."""

from sim.units import GB, KILO, Gbit
from topologies.boardfly import boardfly
from topologies.cloudmatrix import cloudmatrix
from topologies.fat_tree import fat_tree
from topologies.host import Host
from topologies.presets import Preset, of_device, of_host
from topologies.scale_up import single_host
from topologies.torus import torus
from topologies.ub_mesh import ub_mesh
from topologies.virgo import virgo

ASCEND_910B = Host(
    device="ascend-910b", scale_up="full_mesh", scale_up_kind="hccs", scale_up_bandwidth=196 * GB,
    scale_up_links=7, nic="roce-200", nic_bandwidth=200 * Gbit, pcie="pcie4", pcie_bandwidth=31.5 * GB,
)  # fmt: skip
"""Atlas 800T A2: seven HCCS links of 28 GB/s one way (56 read as both directions), 8 x 200 Gb/s."""

ASCEND_910C = Host(
    device="ascend-910c", scale_up="ub", scale_up_kind="ub", scale_up_bandwidth=392 * GB, scale_up_links=14,
    scale_up_switches=7, nic="roce-400", nic_bandwidth=400 * Gbit,
)  # fmt: skip
"""CloudMatrix384 server: 14 UB links of 28 GB/s a device, 400 Gb/s RDMA a device (CloudMatrix384 paper)."""

TRAINIUM1 = Host(
    device="trainium1-core", devices=32, scale_up="torus", scale_up_kind="neuronlink",
    scale_up_bandwidth=192 * GB, scale_up_links=4, nic="efa", nics=8, nic_bandwidth=100 * Gbit,
    pcie="pcie4", pcie_bandwidth=31.5 * GB,
)  # fmt: skip
"""trn1.32xlarge: 16 chips of 2 cores, 768 GB/s a chip read as both directions of four links, 8 x 100 Gb/s (AWS)."""

TRAINIUM2 = Host(
    device="trainium2", devices=16, scale_up="torus", scale_up_kind="neuronlink",
    scale_up_bandwidth=512 * GB, scale_up_links=4, nic="efa", nics=16, nic_bandwidth=200 * Gbit,
)  # fmt: skip
"""trn2: 4x4 torus of four 128 GB/s links a chip, 3,200 Gb/s EFA a server (aws-neuron-sdk documentation)."""

GAUDI2 = Host(
    device="gaudi2", scale_up="full_mesh", scale_up_kind="gaudi-roce", scale_up_bandwidth=262.5 * GB,
    scale_up_links=7, nic="gaudi-roce", nics=24, nic_bandwidth=100 * Gbit,
)  # fmt: skip
"""Gaudi2: 24 ports of 100 Gb/s, three to each of seven others, three out (Intel Gaudi2 white paper)."""

TPU_DOCS = "Cloud TPU documentation; jax-ml/scaling-book tpus.md"
GOOGLE_2026 = "Google announcement, April 2026"

OTHER_CLUSTERS: dict[str, Preset] = {
    "tpu-v3": of_device(
        torus, "tpu-v3", 1024, 1024, "Cloud TPU documentation; astra-sim TPU validation",
        link="ici-v3", link_bandwidth=80 * GB, axes=2, wrap_size=32, max_slice=1024, host_shape=(2, 4),
    ),
    "tpu-v4": of_device(
        torus, "tpu-v4", 4096, 0, TPU_DOCS + "; TPU v4 paper", link="ici-v4", link_bandwidth=45 * GB,
        max_slice=4096, dcn_bandwidth=25 * Gbit, optical_switches=48,
    ),
    "tpu-v5e": of_device(
        torus, "tpu-v5e", 256, 0, TPU_DOCS, link="ici-v5e", link_bandwidth=45 * GB, axes=2, wrap_size=16,
        max_slice=256, host_shape=(2, 4), dcn_bandwidth=25 * Gbit,
    ),
    "tpu-v5p": of_device(
        torus, "tpu-v5p", 8960, 0, TPU_DOCS, link="ici-v5p", link_bandwidth=90 * GB, max_slice=8960,
        dcn_bandwidth=50 * Gbit,
    ),
    "tpu-v6e": of_device(
        torus, "tpu-v6e", 256, 0, TPU_DOCS, link="ici-v6e", link_bandwidth=90 * GB, axes=2, wrap_size=16,
        max_slice=256, host_shape=(2, 4), dcn_bandwidth=100 * Gbit,
    ),
    "tpu-7x": of_device(
        torus, "tpu-7x", 9216, 0, TPU_DOCS, link="ici-7x", link_bandwidth=100 * GB, max_slice=9216,
        dcn_bandwidth=100 * Gbit,
    ),
    "tpu-8t": of_device(
        virgo, "tpu-8t", 9600, 134400, GOOGLE_2026, link="ici-8t", link_bandwidth=200 * GB,
        max_slice=9600, dcn="virgo", dcn_bandwidth=400 * Gbit, dcn_ratio=47 / 53.76, optical_switches=48,
    ),
    "tpu-8i": of_device(boardfly, "tpu-8i", 1152, 1152, GOOGLE_2026, link="ici-8i", link_bandwidth=200 * GB),
    "ascend-910b-host": of_host(single_host, ASCEND_910B, 8, 8),
    "ascend-910b-roce": of_host(fat_tree, ASCEND_910B, 1024, 0, "Atlas 900 A2 PODc: 8 x 200 Gb/s RoCE"),
    "cloudmatrix-384": of_host(
        cloudmatrix, ASCEND_910C, 384, 0, "CloudMatrix384 paper; 559 kW (SemiAnalysis)",
        super_node_power=559 * KILO,
    ),
    "ub-mesh": of_device(
        ub_mesh, "ascend-950dt", 1024, 1024, "UB-Mesh paper", lane_bandwidth=14 * GB
    ),
    "atlas-950": of_device(
        ub_mesh, "ascend-950dt", 8192, 8192, "Atlas 950 SuperPoD pages: 8,192 devices, 64 a cabinet",
        lane_bandwidth=14 * GB, sides=(8, 8), lanes=(28.0, 28.0), stage_lanes=16.0,
    ),
    "trainium1": of_host(fat_tree, TRAINIUM1, 128, 0, "AWS trn1.32xlarge"),
    "trainium2": of_host(fat_tree, TRAINIUM2, 64, 0, "AWS trn2.48xlarge"),
    "gaudi2": of_host(fat_tree, GAUDI2, 64, 0, "Intel Gaudi2 white paper"),
}  # fmt: skip
"""Machines of TPUs, Ascend NPUs, Trainium and Gaudi by name."""
