"""Boardfly: TPU 8i; boards of 4 chips, groups of 8 boards in copper, up to 36 groups joined by optical switches.

Chips of a board are a full mesh, two boards of a group share one link, two groups at least one: a board hop, a group
hop and a board hop on either side of the optical one make the published diameter of 7 (Google announcement: 36 groups,
1,152 chips, copper in board and group, diameter 7). Six links a chip: three on the board, two in the group, one
optical.
"""

from itertools import combinations

import numpy as np

from sim.cluster import Cluster
from sim.device import Device
from sim.errors import TopologyError
from sim.routing import Router, Routes, join, merged, nested, on
from topologies.draft import Draft, power, start
from topologies.host import Host
from topologies.scale_up import direct

BOARD, BOARDS, GROUPS = 4, 8, 36
GROUP = BOARD * BOARDS


def boardfly(
    num_devices: int, *, device: str | Device, link: str, link_bandwidth: float
) -> Cluster:
    """Return chips wired as Boardfly, ``link_bandwidth`` raw bytes/s a link one way.

    Raises `TopologyError` for numbers that are neither whole boards of one group nor whole groups.
    """
    whole = num_devices <= BOARD or num_devices % (BOARD if num_devices < GROUP else GROUP) == 0
    if not whole or num_devices > GROUP * GROUPS:
        raise TopologyError(
            f"num_devices={num_devices} is not made of whole boards of {BOARD} or whole groups of {GROUP}; "
            f"choose a multiple of {BOARD} up to {GROUP}, or of {GROUP} up to {GROUP * GROUPS}"
        )
    draft = start(device, num_devices)
    group = np.arange(num_devices) // GROUP
    wires = Host(
        device=device,
        devices=GROUP,
        scale_up="full_mesh",
        scale_up_kind=link,
        scale_up_bandwidth=link_bandwidth,
        scale_up_links=1,
    )
    inside = direct(draft, group, group_pattern(), wires)
    groups = int(group[-1]) + 1
    router = inside
    if groups > 1:
        router = nested(group, inside, _across(draft, groups, inside, link, link_bandwidth))
    half = groups // 2
    facts = power(draft.device, num_devices) | {"groups": float(groups)}
    if groups > 1:
        pairs = half * (groups - half) * _links_per_pair(groups)
        facts["bisection_Bps"] = pairs * link_bandwidth
    return draft.cluster(
        name="boardfly",
        family="boardfly",
        host=np.arange(num_devices) // BOARD,
        domain=np.zeros(num_devices, np.int64),
        router=router,
        facts=facts,
        parameters={"num_devices": num_devices},
        assumptions=(
            "boards of 4 and the split of a chip's links are derived from the published counts and diameter",
            "19.2 Tb/s a chip read as both directions of six links: 200 GB/s a link one way",
        ),
    )


def group_pattern() -> np.ndarray:
    """Return the links between the 32 chips of a group (32, 32): board meshes, and one link each two boards."""
    pattern = np.zeros((GROUP, GROUP), np.int64)
    for board in range(BOARDS):
        at = slice(board * BOARD, (board + 1) * BOARD)
        pattern[at, at] = 1 - np.eye(BOARD, dtype=np.int64)
    for a, b in combinations(range(BOARDS), 2):
        i = a * BOARD + (b - a - 1) % BOARDS % BOARD
        j = b * BOARD + (a - b - 1) % BOARDS % BOARD
        pattern[i, j] = pattern[j, i] = 1
    return pattern


def _links_per_pair(groups: int) -> int:
    """Return how many optical links join each two groups: one a chip, shared out equally."""
    return max(1, GROUP // (groups - 1))


def _gates(groups: int) -> np.ndarray:
    """Return the chip of each (slot, link): slot k of a group leads to group + k + 1.

    Beyond 33 groups the chips with one link in the group carry the optical links that are missing.
    """
    links = _links_per_pair(groups)
    gates = np.arange(groups - 1)[:, None] + np.arange(links)[None] * (groups - 1)
    spare = np.arange(BOARD - 1, GROUP, BOARD)
    return np.where(gates < GROUP, gates, spare[(gates - GROUP) % len(spare)])


def _across(draft: Draft, groups: int, inside: Router, link: str, bandwidth: float) -> Router:
    """Add the optical links and return the router between groups: to a gate, across, from the gate."""
    gates = _gates(groups)
    links = gates.shape[1]
    here, slot = np.divmod(np.arange(groups * (groups - 1)), groups - 1)
    there = (here + slot + 1) % groups
    back = (here - there - 1) % groups
    src = here[:, None] * GROUP + gates[slot]
    dst = there[:, None] * GROUP + gates[back]
    table = draft.links(src.ravel(), dst.ravel(), link, bandwidth).reshape(
        groups, groups - 1, links
    )
    exit_of = src.reshape(groups, groups - 1, links)
    entry_of = dst.reshape(groups, groups - 1, links)

    def router(a: np.ndarray, b: np.ndarray) -> Routes:
        mine, slots = a // GROUP, (b // GROUP - a // GROUP - 1) % groups
        pairs = np.arange(len(a))
        parts = []
        for i in range(links):
            gate, far = exit_of[mine, slots, i], entry_of[mine, slots, i]
            parts.append(on(pairs, inside(a, gate), 1 / links))
            parts.append(Routes(pairs, table[mine, slots, i], np.full(len(a), 1 / links)))
            parts.append(on(pairs, inside(far, b), 1 / links))
        return merged(join(parts))

    return router
