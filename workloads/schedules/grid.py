"""Grid: a schedule drawn in characters, slot by slot or over time."""

from collections.abc import Sequence

from workloads.schedules.action import Entry, Orders, format_entry
from workloads.schedules.timing import ScheduleTimes

HERE = " <-- here"
CONTEXT = 4
"""Slots shown before and after a marked one."""


def slots_grid(
    orders: Orders, *, mark: tuple[int, int] | None = None, missing: str = "", length: int = 40
) -> str:
    """Return the orders with ranks as columns and slots as rows.

    ``mark`` (rank, slot) is the offending cell, pointed at with ``<-- here``; only its surroundings
    are shown. ``missing`` is written into it if it is beyond the rank's end.
    """
    rows = max((len(order) for order in orders), default=0)
    if mark is not None:
        rows = max(rows, mark[1] + 1)
    first, last = (0, min(rows, length)) if mark is None else _window(mark[1], rows)
    cells = [["slot", *(f"rank {rank}" for rank in range(len(orders)))]]
    for slot in range(first, last):
        row = [str(slot)]
        for rank, order in enumerate(orders):
            text = format_entry(order[slot]) if slot < len(order) else ""
            if (rank, slot) == mark:
                text = (text or missing) + HERE
            row.append(text)
        cells.append(row)
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def _window(slot: int, rows: int) -> tuple[int, int]:
    return max(0, slot - CONTEXT), min(rows, slot + CONTEXT + 1)


def time_grid(times: ScheduleTimes, *, width: int = 110) -> str:
    """Return the schedule over time: a row a rank, ``F3`` and so on in their columns, dots idle."""
    scale = width / times.makespan
    lines = []
    for rank, order in enumerate(times.orders):
        line = ["."] * width
        for entry, start, end in zip(order, times.starts[rank], times.ends[rank], strict=True):
            left = round(start * scale)
            right = max(left + 1, round(end * scale))
            for i, char in enumerate(_label(entry, right - left)):
                if left + i < width:
                    line[left + i] = char
        lines.append(f"rank {rank:<3} {''.join(line)}")
    return "\n".join(lines)


def _label(entry: Entry, width: int) -> str:
    """Return the entry's name in ``width`` columns: kind and microbatch, or the kind alone."""
    names: Sequence[str] = (
        "&".join(f"{token.kind}{token.microbatch}" for token in entry),
        "&".join(f"{token.kind[0]}{token.microbatch}" for token in entry),
        "&" if len(entry) > 1 else entry[0].kind[0],
    )
    name = next(name for name in names if len(name) <= width or name is names[-1])
    return name.ljust(width, "-")
