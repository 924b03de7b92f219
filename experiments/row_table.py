"""Rows of a table file: a CSV with a line of column names, as spreadsheets and people write it."""

import csv
from collections.abc import Mapping
from pathlib import Path

from sim.errors import InputError

SURPLUS = "surplus cells"
"""Column that holds what a row has beyond its table's columns."""


def read_rows(path: str | Path) -> list[dict[str, str]]:
    """Return the rows of a CSV in UTF-8, a byte order mark or none; a cell that a short row lacks is left out.

    Raises `InputError` where the file is no such table: a folder, another encoding, no rows, a column twice.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            names = [name.strip() for name in next(reader, [])]
            lines = [line for line in reader if line]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; give the path of a CSV") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a CSV in UTF-8: {error}") from error
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise InputError(
            f"{path}: column {', '.join(twice)} stands there twice; keep one of each name"
        )
    if not lines:
        raise InputError(
            f"{path} has no rows; give a table with a line of column names and rows below"
        )
    return [_row(names, line) for line in lines]


def _row(names: list[str], line: list[str]) -> dict[str, str]:
    row = {name: cell for name, cell in zip(names, line, strict=False) if name}
    nameless = [cell for name, cell in zip(names, line, strict=False) if not name]
    beyond = [cell for cell in (*nameless, *line[len(names) :]) if cell.strip()]
    return row | {SURPLUS: ", ".join(beyond)} if beyond else row


def check_cells(row: Mapping[str, str]) -> None:
    """Raise `InputError` where a row has more cells than its table has columns."""
    if row.get(SURPLUS):
        raise InputError(
            f"{row[SURPLUS]!r} stands in no column; quote fields that hold a comma, or name the column"
        )
