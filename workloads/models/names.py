"""Names: how people spell the name of a model, and which preset they mean."""

import re
from collections.abc import Sequence

from sim.errors import PlanError, unknown

SAME_SHAPE = {
    "llama3.1": "llama3",
    "llama3.3": "llama3",
    "llama1": "llama",
    "codellama": "llama2",
}
"""Releases that kept the shapes of another one."""
SILENT = ("meta", "hf", "base", "instruct", "chat", "it", "pt", "v0.1", "fp8", "bf16", "nvfp4")
"""Words of a name that do not change the shape."""


def canonical(name: str) -> str:
    """Return ``name`` lower-case, without owner, separators and words that keep the shape.

    >>> canonical("meta-llama/Llama-3.1-405B-Instruct"), canonical("llama3-405b")
    ('llama3405b', 'llama3405b')
    """
    text = re.sub(r"[\s_-]+", "-", name.strip().lower().rsplit("/", 1)[-1])
    words = [word for word in text.split("-") if word not in SILENT]
    if len(words) > 1 and words[0].isalpha() and re.fullmatch(r"\d+(\.\d+)?", words[1]):
        words[:2] = [words[0] + words[1]]
    if words:
        words[0] = SAME_SHAPE.get(words[0], words[0])
    return "".join(words)


def find(name: str, known: Sequence[str]) -> str:
    """Return the one of ``known`` that ``name`` spells. Raises `PlanError` with near names."""
    if name in known:
        return name
    wanted = canonical(name)
    for candidate in known:
        if canonical(candidate) == wanted:
            return candidate
    longer = continued(name, known)
    if longer:
        return longer
    raise PlanError(unknown("model preset", name, known))


def continued(name: str, known: Sequence[str]) -> str:
    """Return the only one of ``known`` that continues ``name`` at a dash, if it has a number; else ``""``.

    >>> continued("qwen3-235b", ["qwen3-235b-a22b", "qwen3-8b"])
    'qwen3-235b-a22b'
    """
    longer = [candidate for candidate in known if candidate.startswith(f"{name.lower()}-")]
    return longer[0] if len(longer) == 1 and any(c.isdigit() for c in name) else ""
