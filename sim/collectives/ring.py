"""Ring: data walks around a cycle of the members, one cycle a channel.

Steps and bytes: all-gather and reduce-scatter (n-1)(a + S/(nB)), all-reduce twice that (Patarasuk & Yuan, 2009);
broadcast and reduce are pipelined down the chain. Groups of k domains with g members in each use g channels, and
channel c enters and leaves a domain by neighbouring rails, so that every NIC carries 1/g of the bytes.
"""

from functools import lru_cache

import numpy as np

from sim.collectives.stage import Algorithm, Block, Stage, flows
from sim.collectives.transfer import Round, Transfer

KINDS = frozenset(
    {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "send_recv"}
)


def hop_bytes(kind: str, n: int) -> float:
    """Bytes that cross each hop of the ring for one byte of the collective."""
    part = (n - 1) / n
    table = {"all_reduce": 2 * part, "all_gather": part, "reduce_scatter": part}
    return table.get(kind, 1.0)


def num_steps(kind: str, n: int) -> int:
    """Hops that follow one another."""
    return {"all_reduce": 2 * (n - 1), "send_recv": 1}.get(kind, n - 1)


@lru_cache(maxsize=64)
def orders(sizes: tuple[int, ...]) -> np.ndarray:
    """(channels, n) member positions in the order each channel's ring visits them.

    Both ends of a crossing between domains are on the same rail (but for g = 2 and k odd).
    """
    if len(sizes) == 1:
        return np.arange(sizes[0])[None, :]
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    k = len(sizes)
    channel = np.arange(min(sizes))[:, None]
    walks = {(g, *_ends(h, k, g)): _walk(g, *_ends(h, k, g)) for h, g in enumerate(sizes)}
    rows = [
        f + (walks[g, *_ends(h, k, g)] + channel) % g
        for h, (f, g) in enumerate(zip(first, sizes, strict=True))
    ]
    return np.concatenate(rows, axis=1)


def _walk(g: int, enter: int, leave: int) -> np.ndarray:
    """Local order of the first channel in a domain: in at one rail, through all members, out at the other.

    Between opposite rails it zigzags (0, 1, g-1, 2, ...): over all channels every pair of members is used alike, as a
    host with a link for each pair needs.
    """
    if g == 1:
        return np.zeros(1, int)
    if (leave - enter) % g == g // 2 and g % 2 == 0:
        i = np.arange(g)
        return (np.where(i % 2, (i + 1) // 2, -(i // 2)) + enter) % g
    if enter == leave:
        leave = (enter + 1) % g
    return np.array([enter, *(i for i in range(g) if i not in (enter, leave)), leave])


def _ends(h: int, k: int, g: int) -> tuple[int, int]:
    """Rails at which the ring enters and leaves domain h."""
    return _rail(h, k, g), _rail((h + 1) % k, k, g)


def _rail(h: int, k: int, g: int) -> int:
    """Rail at which the ring enters domain h: two opposite ones alternate, a third closes an odd ring."""
    return 1 % g if k % 2 and h == k - 1 and k > 1 else h % 2 * (g // 2)


def stages(kind: str, block: Block) -> tuple[Stage, ...] | str:
    """One stage."""
    return (stage(kind, block),)


def stage(kind: str, block: Block) -> Stage:
    """Flows along every channel's ring; levels: 0 inside a domain, 1 between domains."""
    order = orders(block.sizes)[: 1 if kind == "send_recv" else None]
    channels, n = order.shape
    domain = np.repeat(np.arange(block.num_domains), block.sizes)
    src, dst = order, np.roll(order, -1, axis=1)
    each = hop_bytes(kind, n) / channels
    if kind in {"broadcast", "reduce"}:
        keep = dst != 0 if kind == "broadcast" else src != 0
        src, dst = src[keep], dst[keep]
    level = (domain[src] != domain[dst]).astype(int).ravel()
    load = np.full(src.size, each)
    code, where = np.unique(src.ravel() * n + dst.ravel(), return_index=True)
    total = np.bincount(np.searchsorted(code, src.ravel() * n + dst.ravel()), load)
    src, dst, level = code // n, code % n, level[where]
    count = len(block.members)
    crossings = block.num_domains if block.num_domains > 1 else 0
    steps = num_steps(kind, n)
    inter = steps * crossings / n if kind != "send_recv" else float(crossings > 0)
    members = block.members
    parts = flows(
        *(
            (
                members[:, src[level == l]],
                members[:, dst[level == l]],
                np.tile(total[level == l], (count, 1)),
                l,
            )
            for l in (0, 1)
        )
    )
    name = f"ring x{channels}" if channels > 1 else "ring"
    rule = "p2p" if kind == "send_recv" else "ring"
    steps_by_level = (steps - inter, inter)
    return Stage(name=name, rule=rule, steps=steps_by_level, channels=channels, **parts)


def rounds(kind: str, n: int, sizes: tuple[int, ...] = ()) -> list[Round]:
    """Every transfer of the ring; chunks: one a member and channel."""
    order = orders(sizes or (n,))
    channels = len(order)
    if kind in {"broadcast", "reduce"}:
        return _chain(kind, order)
    if kind == "send_recv":
        return [tuple(Transfer(i, (i + 1) % n, i, 1.0) for i in range(n))]
    result: list[Round] = []
    size = 1 / (n * channels)
    if kind != "all_gather":
        result += [
            tuple(
                Transfer(
                    int(o[i]),
                    int(o[(i + 1) % n]),
                    int(o[(i - s - 1) % n]) * channels + c,
                    size,
                    add=True,
                )
                for c, o in enumerate(order)
                for i in range(n)
            )
            for s in range(n - 1)
        ]
    if kind != "reduce_scatter":
        result += [
            tuple(
                Transfer(int(o[i]), int(o[(i + 1) % n]), int(o[(i - s) % n]) * channels + c, size)
                for c, o in enumerate(order)
                for i in range(n)
            )
            for s in range(n - 1)
        ]
    return result


def _chain(kind: str, order: np.ndarray, pieces: int = 4) -> list[Round]:
    """A pipelined chain of each channel's ring, from member 0 (broadcast) or to it (reduce)."""
    channels, n = order.shape
    size = 1 / (channels * pieces)
    result = []
    for s in range(n - 1 + pieces - 1):
        turn = []
        for c, row in enumerate(order):
            walk = np.roll(row, -int(np.argmax(row == 0)) - (kind == "reduce"))
            for i in range(max(0, s - pieces + 1), min(n - 1, s + 1)):
                src, dst, chunk = int(walk[i]), int(walk[i + 1]), c * pieces + s - i
                turn.append(Transfer(src, dst, chunk, size, add=kind == "reduce"))
        result.append(tuple(turn))
    return result


RING = Algorithm("ring", KINDS, stages, rounds)
