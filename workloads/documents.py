"""Documents: how long the documents are that are packed into a sequence; attention stays inside each (a document mask).

``2048``: every document that long. ``512:0.7,4096:0.3``: length and share of the documents. ``file:PATH``: a CSV with
the columns ``length,count``. Documents are packed whole and without gaps, so a token meets E[s(l)] / E[l] scores, s the
scores of a document of l tokens and E the mean over documents: exact for a histogram.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sim.errors import PlanError

FILE = "file:"
_WAY_OUT = "write a length, length:share pairs such as 512:0.7,4096:0.3, or file:PATH of a CSV with length,count"


class Documents(NamedTuple):
    """A histogram: ``lengths`` in tokens, ascending, and the ``shares`` of documents that long, summing to 1."""

    lengths: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def mean_length(self) -> float:
        """Tokens of a document, on average over documents."""
        return sum(n * share for n, share in zip(self.lengths, self.shares, strict=True))

    @property
    def met_length(self) -> float:
        """Tokens of the document a token is in, on average over tokens: E[l^2] / E[l]."""
        squares = sum(n * n * share for n, share in zip(self.lengths, self.shares, strict=True))
        return squares / self.mean_length

    def scores_per_token(self, window: int = 0) -> float:
        """Causal scores a token: half of each document's matrix, or the band of ``window`` keys in it."""
        found = 0.0
        for n, share in zip(self.lengths, self.shares, strict=True):
            beyond = max(n - window, 0) if window else 0
            found += share * (n * n - beyond * beyond) / 2.0
        return found / self.mean_length


@lru_cache(maxsize=64)
def parse_documents(text: str) -> Documents:
    """Return the histogram a plan states. Raises `PlanError`."""
    if text.startswith(FILE):
        return _histogram(text, _read(text.removeprefix(FILE)))
    if ":" not in text:
        return _histogram(text, [(text, "1")])
    pairs = [tuple(part.partition(":")[::2]) for part in text.split(",")]
    return _histogram(text, pairs)


def check_documents(text: str, seq_len: int) -> None:
    """Raise `PlanError` where documents cannot be packed into sequences of ``seq_len``."""
    longest = max(parse_documents(text).lengths)
    if longest > seq_len:
        raise PlanError(
            f"documents={text!r}: a document of {longest} tokens is longer than seq_len={seq_len}; documents are "
            f"packed whole: cut longer ones to seq_len={seq_len} tokens, or raise seq_len to {longest} or more"
        )


def documents_text(table: Mapping[str, object]) -> str:
    """Return lengths and shares as the text a plan holds.

    >>> documents_text({"512": 3, "4096": 1})
    '512:3,4096:1'
    """
    return ",".join(f"{length}:{share}" for length, share in table.items())


def _histogram(text: str, pairs: list[tuple[str, ...]]) -> Documents:
    counts: dict[int, float] = {}
    for length, share in pairs:
        tokens, weight = _number(text, "length", length), _number(text, "share", share)
        if tokens < 1 or tokens != int(tokens):
            raise PlanError(
                f"documents={text!r}: length {length.strip()!r} must be a whole number of tokens, 1 or more; {_WAY_OUT}"
            )
        if weight < 0:
            raise PlanError(
                f"documents={text!r}: {share.strip()} documents of {length.strip()} tokens; a share or count must be 0 "
                f"or more"
            )
        counts[int(tokens)] = counts.get(int(tokens), 0.0) + weight
    total = sum(counts.values())
    if total <= 0:
        raise PlanError(f"documents={text!r} holds no documents; give one share above 0")
    kept = sorted((length, count / total) for length, count in counts.items() if count)
    return Documents(tuple(n for n, _ in kept), tuple(share for _, share in kept))


def _number(text: str, what: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise PlanError(f"documents={text!r}: {what} {word.strip()!r} is no number; {_WAY_OUT}")
    return value


def _read(path: str) -> list[tuple[str, ...]]:
    """Return the rows of a CSV of lengths and counts, its header left out."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise PlanError(
            f"documents='{FILE}{path}': {problem.strerror}; give the path of a CSV with the columns length,count"
        ) from problem
    except UnicodeDecodeError as problem:
        raise PlanError(f"documents='{FILE}{path}' is not UTF-8 text; {_WAY_OUT}") from problem
    rows = [tuple(line.split(",")) for line in lines if line.strip()]
    if rows and [word.strip().lower() for word in rows[0]] == ["length", "count"]:
        rows = rows[1:]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise PlanError(
                f"documents='{FILE}{path}': row {number} has {len(row)} fields; write length,count in each"
            )
    return rows
