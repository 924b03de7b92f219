"""Progress of a long score, on standard error: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 15.0
"""Seconds between lines where standard error is no terminal."""
WIDTH = 30


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function (done, total) that shows how far the work is."""
    terminal = sys.stderr.isatty()
    start = told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told < (0.2 if terminal else PATIENCE):
            return
        told = now
        text = line(what, done, total, now - start)
        sys.stderr.write(f"\r{text}" if terminal else f"{text}\n")
        sys.stderr.flush()

    yield tell
    if terminal and told > start:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def line(what: str, done: int, total: int, seconds: float) -> str:
    """Return the bar.

    >>> line("scoring runs", 5, 10, 12.0)
    'scoring runs [###############...............] 5/10, 12 s'
    """
    full = WIDTH * done // max(total, 1)
    return f"{what} [{'#' * full}{'.' * (WIDTH - full)}] {done}/{total}, {seconds:.0f} s"
