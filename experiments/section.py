"""Sections of a run file, checked against the fields of a frozen dataclass (or a pydantic model)."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from experiments.quantity import looks_like_quantity, parse_quantity
from sim.errors import InputError

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "a text",
    "tuple": 'a list, such as ["a", "b"] or [1, 2]',
    "list": 'a list, such as ["a", "b"] or [1, 2]',
    "dict": "a table",
}


@cache
def section_type(kind: type) -> type[BaseModel]:
    """Return the pydantic model that accepts any subset of a dataclass's fields and no other key."""
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], Field(default=None)) for field in dataclasses.fields(kind)
    }
    config = ConfigDict(
        extra="forbid", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False
    )
    return create_model(kind.__name__, __config__=config, **fields)


def missing_fields(kind: type, values: Mapping[str, object]) -> list[str]:
    """Return the fields of a dataclass that have no default and no value."""
    unset = dataclasses.MISSING
    needed = (
        f for f in dataclasses.fields(kind) if f.default is unset and f.default_factory is unset
    )
    return [field.name for field in needed if field.name not in values]


def read_section(
    name: str, table: Mapping[str, object], shape: type[BaseModel], extra: Iterable[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the values a table states, converted, and a message for each that is wrong.

    ``extra`` are keys the section has besides, named when an unknown key is met.
    """
    prepared: dict[str, object] = {}
    problems: list[str] = []
    for key, value in table.items():
        try:
            prepared[key] = _prepare(f"{name}.{key}", value, shape.model_fields.get(key))
        except InputError as problem:
            problems.append(str(problem))
    try:
        section = shape.model_validate(prepared)
    except ValidationError as error:
        problems += _messages(name, error, (*shape.model_fields, *extra))
        return {}, problems
    return {key: getattr(section, key) for key in prepared}, problems


def _prepare(what: str, value: object, field: Any) -> object:
    """Turn ``"25MiB"`` into a number where a number is wanted, and refuse true and false there."""
    if field is None:
        return value
    kinds = {field.annotation, *get_args(field.annotation)}
    numeric = bool({int, float} & kinds)
    if numeric and isinstance(value, bool) and bool not in kinds:
        raise InputError(f"{what}={str(value).lower()} must be a number")
    if numeric and isinstance(value, str) and looks_like_quantity(value):
        return parse_quantity(value, what)
    return value


def _messages(name: str, error: ValidationError, known: Sequence[str]) -> list[str]:
    """Return one line a wrong key, in the house's words."""
    lines: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False):
        key = str(item["loc"][0]) if item["loc"] else ""
        if item["type"] == "extra_forbidden":
            line = unknown_key(name, key, known)
        elif item["type"] == "missing":
            line = f"{name}.{key} is missing"
        else:
            wanted = _KINDS.get(item["type"].split("_")[0])
            rule = f"must be {wanted}" if wanted else item["msg"][0].lower() + item["msg"][1:]
            line = f"{name}.{'.'.join(map(str, item['loc']))}={item['input']!r} {rule}"
        lines.setdefault(key, line)
    return list(lines.values())


def unknown_key(section: str, key: str, known: Iterable[str]) -> str:
    """Return the message for a key that a section does not have, near names first."""
    names = list(known)
    near = get_close_matches(key, names, n=3, cutoff=0.5)
    hint = f" did you mean {' or '.join(near)}?" if near else ""
    where = f"{section}.{key}" if section else key
    return f"unknown key {where};{hint} Known: {', '.join(names)}"
