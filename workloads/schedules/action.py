"""Tokens of a schedule: ``F0.3`` (forward, chunk 0, microbatch 3), ``B``, ``W``, ``BW``; pairs.

A schedule is data: one order a rank, an order is a row of entries, an entry is one token or an
overlapped pair of two. ``F0.3&BW1.1`` is one entry: it starts when both inputs are there and ends
once. The chunk is the local index on the rank, not the stage; `Placement` says which stage that is.
"""

import re
from typing import NamedTuple

from sim.errors import ScheduleError


class Token(NamedTuple):
    """One action: ``kind`` F, B (input gradient), W (weight gradient) or BW (both, fused)."""

    kind: str
    chunk: int
    microbatch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.chunk}.{self.microbatch}"


Entry = tuple[Token, ...]
"""What a rank does next: one token, or the two of an overlapped pair."""
Order = tuple[Entry, ...]
"""What one rank does, in order."""
Orders = tuple[Order, ...]
"""What every rank does."""

KINDS = ("F", "B", "W", "BW")
BACKWARD = ("B", "BW")
_TOKEN = re.compile(r"(F|BW|B|W)(\d+)\.(\d+)")


def forward(chunk: int, microbatch: int) -> Entry:
    """Return the entry of one forward."""
    return (Token("F", chunk, microbatch),)


def backward(chunk: int, microbatch: int) -> Entry:
    """Return the entry of one fused backward."""
    return (Token("BW", chunk, microbatch),)


def backward_input(chunk: int, microbatch: int) -> Entry:
    """Return the entry of one input-gradient backward."""
    return (Token("B", chunk, microbatch),)


def backward_weight(chunk: int, microbatch: int) -> Entry:
    """Return the entry of one weight-gradient backward."""
    return (Token("W", chunk, microbatch),)


def parse_entry(text: str) -> Entry:
    """Return the entry written ``F0.3`` or ``F0.3&BW1.1``; raise `ScheduleError` if it is neither.

    >>> parse_entry("F0.3&BW1.1")
    (Token(kind='F', chunk=0, microbatch=3), Token(kind='BW', chunk=1, microbatch=1))
    """
    tokens = []
    for part in text.split("&"):
        match = _TOKEN.fullmatch(part.strip())
        if match is None:
            raise ScheduleError(
                f"{text!r} is not an action; write F, B, W or BW, the chunk, a dot and the "
                "microbatch (F0.3, BW1.2), and join an overlapped pair with & (F0.3&BW1.1)"
            )
        tokens.append(Token(match[1], int(match[2]), int(match[3])))
    if len(tokens) > 2:
        raise ScheduleError(f"{text!r} overlaps {len(tokens)} actions; at most two can overlap")
    return tuple(tokens)


def parse_order(text: str) -> Order:
    """Return one rank's order from its tokens, separated by blanks or commas."""
    return tuple(parse_entry(word) for word in text.replace(",", " ").split())


def format_entry(entry: Entry) -> str:
    """Return the entry as it is written: ``F0.3``, ``F0.3&BW1.1``."""
    return "&".join(map(str, entry))


def format_order(order: Order) -> str:
    """Return one rank's order as it is written, separated by blanks."""
    return " ".join(map(format_entry, order))
