"""Columns of a table of measured runs, read one field at a time.

Numbers are written as floats (``8.0``), flags as 0 and 1, and a blank means not stated.
"""

from collections.abc import Mapping

from sim.errors import InputError

Row = Mapping[str, str]


class UnsupportedError(InputError):
    """A row that reads well but that no run expresses."""


def text(row: Row, column: str) -> str:
    """Return a field without the blanks around it; blank where the table lacks the column."""
    return (row.get(column) or "").strip()


def number(row: Row, column: str) -> float | None:
    """Return a positive number, or None where blank. Raises `InputError` for text, 0 and less."""
    field = text(row, column)
    if not field:
        return None
    try:
        value = float(field)
    except ValueError:
        raise InputError(f"{column}={field!r} is not a number; write one, as 8") from None
    if not 0.0 < value < float("inf"):
        raise InputError(f"{column}={field} must be positive and finite")
    return value


def whole(row: Row, column: str) -> int | None:
    """Return a whole number of at least 1, or None where blank."""
    value = number(row, column)
    if value is not None and value != int(value):
        raise InputError(f"{column}={value:g} must be a whole number")
    return None if value is None else int(value)


def check_count(row: Row, column: str) -> None:
    """Raise `InputError` where a field is neither blank nor a whole number of at least 0."""
    if text(row, column) not in ("0", "0.0"):
        whole(row, column)


def needed(row: Row, column: str) -> int:
    """Return a whole number that a run cannot do without. Raises `UnsupportedError` where blank."""
    value = whole(row, column)
    if value is None:
        raise UnsupportedError(f"{column} is not stated; fill the column")
    return value


def flag(row: Row, column: str) -> bool | None:
    """Return a flag, or None where blank. Raises `InputError` for anything but 0 and 1."""
    field = text(row, column).lower()
    if not field:
        return None
    known = {"1": True, "1.0": True, "true": True, "yes": True,
             "0": False, "0.0": False, "false": False, "no": False}  # fmt: skip
    if field not in known:
        raise InputError(f"{column}={field!r} is not a flag; write 0 or 1")
    return known[field]
