"""Packing: which documents stand where in a sequence, and the attention scores between its pieces.

A sequence over n ranks is cut into pieces, and each rank holds some: in ``zigzag`` order pieces r and 2n - 1 - r of 2n,
so that causal work is even (Megatron-Core; Llama 3 report, section 3.3.2), in ``contiguous`` order piece r of n, so
that the last rank has 2n - 1 times the work of the first.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from workloads.documents import Documents, parse_documents

BALANCES = ("zigzag", "contiguous")
DRAWS = 8
"""Packings drawn a step: microbatches m and m + 8 share one, so that a step of many is not many programs."""


class Spread(NamedTuple):
    """How sequences of ``seq_len`` lie over ``ranks``; ``documents`` and ``seed`` as a plan has them.

    ``sequences``: how many a microbatch has.
    """

    seq_len: int
    ranks: int
    balance: str
    sequences: int = 1
    documents: str = ""
    seed: int = 0


def pieces(balance: str, ranks: int) -> list[tuple[int, ...]]:
    """Return the pieces of a sequence each rank holds.

    >>> pieces("zigzag", 2), pieces("contiguous", 2)
    ([(0, 3), (1, 2)], [(0,), (1,)])
    """
    if balance == "contiguous":
        return [(r,) for r in range(ranks)]
    return [(r, 2 * ranks - 1 - r) for r in range(ranks)]


@lru_cache(maxsize=512)
def step_scores(spread: Spread, window: int, draw: int = 0) -> np.ndarray:
    """Return the causal scores a head and sequence, of each rank in each step of a ring: (ranks, ranks).

    In step i rank r has the keys of rank r - i. Rows sum to what a rank computes of gathered keys. Documents are drawn
    (packing number ``draw``) for where the scores are; how many there are in all stays the histogram's mean.
    """
    held = pieces(spread.balance, spread.ranks)
    number = len(held[0]) * spread.ranks
    bounds = np.linspace(0.0, spread.seq_len, number + 1)
    starts = np.zeros(1)
    total = np.zeros((number, number))
    for sequence in range(spread.sequences if spread.documents else 1):
        if spread.documents:
            key = (spread.seed, draw, sequence)
            starts = document_starts(parse_documents(spread.documents), spread.seq_len, key)
        total += piece_scores(bounds, np.append(starts, spread.seq_len), window)
    if spread.documents:
        mean = parse_documents(spread.documents).scores_per_token(window)
        total *= mean * spread.seq_len / total.sum()
    found = np.zeros((spread.ranks, spread.ranks))
    for rank, own in enumerate(held):
        for step in range(spread.ranks):
            found[rank, step] = total[np.ix_(own, held[(rank - step) % spread.ranks])].sum()
    return found


def document_starts(documents: Documents, seq_len: int, key: tuple[int, ...]) -> np.ndarray:
    """Return where documents start that are drawn one after another until the sequence is full (the last is cut)."""
    most = seq_len // min(documents.lengths) + 1
    random = np.random.default_rng(key)
    drawn = random.choice(np.array(documents.lengths), size=most, p=np.array(documents.shares))
    starts = np.concatenate([[0], np.cumsum(drawn)])
    return np.asarray(starts[starts < seq_len], dtype=float)


def piece_scores(bounds: np.ndarray, edges: np.ndarray, window: int) -> np.ndarray:
    """Return the scores of every piece's queries with every piece's keys: (pieces, pieces).

    Documents lie between consecutive ``edges``, pieces between ``bounds``. Scores are the area of key < query (and key
    > query - window) in the square of each document, as the kernels count them.
    """
    low, high = edges[:-1, None], edges[1:, None]
    inside = np.clip(bounds[None, :], low, high)  # (documents, bounds)
    corners = np.empty((len(bounds), len(bounds)))
    for i in range(len(bounds)):
        ahead = np.maximum(inside[:, i : i + 1] - inside, 0.0)
        beyond = np.maximum(ahead - window, 0.0) if window else np.zeros(1)
        corners[i] = (ahead**2 - beyond**2).sum(axis=0) / 2.0
    return np.asarray(corners[1:, :-1] - corners[:-1, :-1] - corners[1:, 1:] + corners[:-1, 1:])
