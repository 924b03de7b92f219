"""What a command prints: one JSON object, or tables for people; and a sign of life while it works."""

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:  # rich takes 60 ms to import, and --json needs none of it
    from rich.console import RenderableType

PATIENCE = 2.0
"""Seconds a command may be silent."""
WIDTH = 200
"""Columns of output that goes to a file or a pipe."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a run file's value, e.g. plan.tp=4."),
]


def emit(
    answer: Mapping[str, object], as_json: bool, view: Callable[[], Iterable["RenderableType"]]
) -> None:
    """Print an answer: as JSON, or as the renderables of ``view``."""
    if as_json:
        sys.stdout.write(json.dumps(plain(answer), allow_nan=False) + "\n")
        return
    from rich.console import Console

    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else WIDTH, highlight=False)
    for part in list(view()):  # all of it is made before any of it is printed
        console.print(part, markup=False)


def plain(value: Any) -> Any:
    """Return a value made of what JSON knows: numpy values unwrapped, infinities and not-a-numbers as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


def table(
    rows: Sequence[Sequence[object]], columns: Sequence[str], title: str = ""
) -> "RenderableType":
    """Return a table; columns of numbers are set flush right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    result = Table(box=SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        result.add_column(name, justify="right" if numeric else "left")
    for row in rows:
        result.add_row(*(Text(cell(value)) for value in row))
    return Group(Text(title), result) if title else result


def cell(value: object) -> str:
    """Return a table cell: counts with separators, other numbers with four digits.

    >>> cell(16384), cell(6.72109), cell("tp")
    ('16,384', '6.721', 'tp')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return "" if value is None else str(value)


@contextmanager
def working(what: str, patience: float = PATIENCE) -> Iterator[None]:
    """Say on standard error what is being done, once it takes longer than ``patience`` seconds."""
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, patience, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, patience: float, done: threading.Event) -> None:
    """Wait, then keep a line with the elapsed time (on a terminal), or write one now and then."""
    start = time.monotonic()
    if done.wait(patience):
        return
    terminal = sys.stderr.isatty()
    while True:
        text = f"{what} ... {time.monotonic() - start:.0f} s"
        sys.stderr.write(f"\r{text}" if terminal else f"{text}\n")
        sys.stderr.flush()
        if done.wait(0.5 if terminal else 15.0):
            break
    if terminal:
        sys.stderr.write("\r" + " " * (len(what) + 20) + "\r")
        sys.stderr.flush()
