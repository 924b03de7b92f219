"""NVL72: racks of 72 devices in one NVLink domain, 18 trays of 4, joined by a rail-optimised fat tree.

Each device has one of its 18 links to each of the rack's 18 NVSwitch chips, over copper (NVIDIA GB200 NVL72 pages).
"""

from dataclasses import replace
from math import ceil
from typing import Any

from sim.cluster import Cluster
from topologies.fat_tree import fat_tree
from topologies.host import Host


def nvl72(num_devices: int, host: Host, *, rack_power: float = 0.0, **parameters: Any) -> Cluster:
    """Return racks on a fat tree (see `topologies.fat_tree.fat_tree` for the parameters).

    ``rack_power`` W of a whole rack replaces the sum of its devices where it is published. The last rack may be partly
    filled.
    """
    cluster = fat_tree(num_devices, host, **parameters)
    racks = ceil(num_devices / host.domain_size)
    facts = dict(cluster.facts)
    facts["racks"] = float(racks)
    facts["nvswitches"] = float(racks * host.scale_up_switches)
    facts["copper_cables"] = float(num_devices * host.scale_up_links)
    if rack_power:
        facts["power_W"] = racks * rack_power
    return replace(cluster, family="nvl72", facts=facts)
