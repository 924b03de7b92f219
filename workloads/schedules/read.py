"""A user's own schedule: a CSV file of tokens, one row a rank."""

import csv
from collections.abc import Sequence
from pathlib import Path

from sim.errors import ScheduleError
from workloads.schedules.action import Orders, parse_entry
from workloads.schedules.check import check_orders
from workloads.schedules.placement import Placement


def parse_orders(text: str) -> Orders:
    """Return the orders of a CSV text: one row a rank, a token a cell (or several, by blanks).

    Empty cells are idle slots, lines starting with # comments. A header with a column ``order``
    (and ``rank``, to sort by) is understood too. Raises `ScheduleError` naming the cell it cannot
    read.
    """
    rows = [row for row in csv.reader(text.splitlines()) if _has_content(row)]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if "order" in header:
        rows = _columns(rows[1:], header)
    if not rows:
        raise ScheduleError("the schedule has no rows; write one row of tokens a rank (F0.0,BW0.0)")
    orders = []
    for rank, row in enumerate(rows):
        words = [(c, word) for c, cell in enumerate(row) for word in cell.split()]
        entries = []
        for column, word in words:
            try:
                entries.append(parse_entry(word))
            except ScheduleError as error:
                raise ScheduleError(f"row {rank}, cell {column}: {error}") from None
        orders.append(tuple(entries))
    return tuple(orders)


def _has_content(row: Sequence[str]) -> bool:
    return any(cell.strip() for cell in row) and not row[0].lstrip().startswith("#")


def _columns(rows: list[list[str]], header: list[str]) -> list[list[str]]:
    order = header.index("order")
    if any(len(row) <= order for row in rows):
        raise ScheduleError("a row is shorter than the header; give every row its column 'order'")
    if "rank" in header:
        rank = header.index("rank")
        rows = sorted(rows, key=lambda row: int(row[rank]) if row[rank].strip().isdigit() else 0)
    return [[row[order]] for row in rows]


def read_schedule(path: Path, placement_kind: str = "loop") -> tuple[Orders, Placement, int]:
    """Return the checked (orders, placement, number of microbatches) of a schedule file.

    Ranks are its rows, chunks and microbatches the largest in it; raises `ScheduleError` if the
    file cannot be read or the schedule is illegal.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScheduleError(f"cannot read schedule {path}: {error}; give a CSV file") from None
    orders = parse_orders(text)
    tokens = [token for order in orders for entry in order for token in entry]
    if not tokens:
        raise ScheduleError(f"schedule {path} has no tokens; write rows such as F0.0,BW0.0")
    chunks = 2 if placement_kind in ("v", "bidir") else max(token.chunk for token in tokens) + 1
    placement = Placement(placement_kind, len(orders), chunks)
    count = (max(token.microbatch for token in tokens) + 1) * placement.num_directions
    check_orders(orders, placement, count)
    return orders, placement, count
