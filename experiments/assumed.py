"""Assumed: what a run file says its source does not: texts, or ``section.key: text`` about keys of its own."""

from collections.abc import Mapping


def assumed_texts(table: Mapping[str, object], problems: list[str]) -> tuple[str, ...]:
    """Return the list ``assumed`` of a run file, noting what is no list of texts."""
    value = table.get("assumed", [])
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return tuple(value)
    problems.append(f"assumed must be a list of texts, not {value!r}")
    return ()


def said(table: dict[str, object], key: str) -> None:
    """Take out, in place, what a table assumed of a key that an override now says."""
    assumed = table.get("assumed")
    if isinstance(assumed, list):
        table["assumed"] = [text for text in assumed if key not in assumed_keys(str(text))]


def assumed_keys(text: str) -> tuple[str, ...]:
    """Return the keys an assumption is about: none, where it does not begin with keys.

    >>> assumed_keys("plan.tp, plan.pp: not published")
    ('plan.tp', 'plan.pp')
    """
    keys, colon, _ = text.partition(":")
    named = tuple(key.strip() for key in keys.split(","))
    return named if colon and all("." in key and " " not in key for key in named) else ()
