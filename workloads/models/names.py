"""Names: how people spell the name of a model, and which preset they mean."""

import re
from collections.abc import Sequence

from sim.errors import PlanError, unknown

MINOR_VERSIONS = {"llama3.1": "llama3"}
"""Releases that kept the shapes of an earlier one (Llama 3.1 of Llama 3)."""


def canonical(name: str) -> str:
    """Return ``name`` lower-case without separators: ``Llama-3.1_405B`` -> ``llama3405b``.

    >>> canonical("Llama-3.1-405B"), canonical("llama3-405b")
    ('llama3405b', 'llama3405b')
    """
    text = re.sub(r"[\s_]+", "-", name.strip().lower())
    text = text.rsplit("/", 1)[-1]
    text = re.sub(r"(?<=[a-z])-(?=\d)", "", text, count=1)
    for release, base in MINOR_VERSIONS.items():
        if text.startswith(release):
            text = base + text[len(release) :]
    return text.replace("-", "")


def find(name: str, known: Sequence[str]) -> str:
    """Return the one of ``known`` spelled by ``name``. Raises `PlanError` with near names."""
    if name in known:
        return name
    wanted = canonical(name)
    for candidate in known:
        if canonical(candidate) == wanted:
            return candidate
    raise PlanError(unknown("model preset", name, known))
