"""Tree: two binary trees over the domains, each carrying half the buffer; a chain inside each domain.

A domain that branches in one tree is a leaf in the other, so both directions of every link are busy. Time
2((g-1) a_in + log2(k) a_out) + 2S/B, pipelined (Sanders, Speck & Traeff, 2009; NVIDIA/nccl double binary trees).
"""

import math

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer


def binary_parents(k: int) -> np.ndarray:
    """(k,) parent of each vertex, -1 at the root: leaves are the odd vertices, each level doubles the distance."""
    parent = np.full(k, -1)
    for i in range(1, k):
        low = i & -i
        up = (i - low) | (2 * low)
        parent[i] = up if up < k else i - low
    return parent


def double_parents(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Two trees over the same vertices: the second is the first mirrored (k even) or shifted by one (k odd)."""
    first = binary_parents(k)
    place = np.arange(k)
    moved = k - 1 - place if k % 2 == 0 else (place + 1) % k
    second = np.full(k, -1)
    has = first >= 0
    second[moved[has]] = moved[first[has]]
    return first, second


def member_parents(sizes: tuple[int, ...], channel: int, tree: int) -> np.ndarray:
    """(n,) parent of each member: heads of the domains form the tree, a chain hangs from each head."""
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    size = np.array(sizes)
    above = double_parents(len(sizes))[tree]
    domain = np.repeat(np.arange(len(sizes)), size)
    place = (np.arange(len(domain)) - first[domain] - channel) % size[domain]
    up = above[domain]
    before = first[domain] + (place - 1 + channel) % size[domain]
    parent = np.where(place > 0, before, np.where(up >= 0, first[up] + channel % size[up], -1))
    return np.asarray(parent)


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage: half the buffer up and down each tree; levels: 0 chain in a domain, 1 between domains."""
    if block.num_domains == 1:
        return "joins domains, and the group sits in one"
    n, members, channels = block.n, block.members, min(block.sizes)
    domain = np.repeat(np.arange(block.num_domains), block.sizes)
    child, parent = [], []
    for tree in (0, 1):
        for channel in range(channels):
            above = member_parents(block.sizes, channel, tree)
            child.append(np.flatnonzero(above >= 0))
            parent.append(above[child[-1]])
    code, count = np.unique(np.concatenate(child) * n + np.concatenate(parent), return_counts=True)
    low, high = code // n, code % n
    level = (domain[low] != domain[high]).astype(int)
    each = np.broadcast_to(count / (2 * channels), (len(members), len(code)))
    parts = [
        (members[:, a[level == l]], members[:, b[level == l]], each[:, level == l], l)
        for l in (0, 1)
        for a, b in ((low, high), (high, low))
        if (level == l).any()
    ]
    steps = (2.0 * (max(block.sizes) - 1), 2.0 * math.log2(block.num_domains))
    return (Stage(name="tree", rule="tree", steps=steps, channels=2 * channels, **flows(*parts)),)


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """Up from the deepest members, then down; one chunk a tree and channel, padded to a chunk a member."""
    sizes = sizes or (n,)
    channels = min(sizes)
    pieces = n * -(-2 * channels // n)
    up: dict[int, list[Transfer]] = {}
    for chunk in range(pieces):
        parent = member_parents(sizes, (chunk // 2) % channels, chunk % 2)
        for member in np.flatnonzero(parent >= 0):
            depth, above = 1, parent[member]
            while parent[above] >= 0:
                depth, above = depth + 1, parent[above]
            moved = Transfer(int(member), int(parent[member]), chunk, 1 / pieces, add=True)
            up.setdefault(depth, []).append(moved)
    rise = [tuple(up[depth]) for depth in sorted(up, reverse=True)]
    fall = [tuple(Transfer(t.dst, t.src, t.chunk, t.size) for t in turn) for turn in reversed(rise)]
    return rise + fall


TREE = Algorithm("tree", frozenset({"all_reduce"}), stages, rounds)
