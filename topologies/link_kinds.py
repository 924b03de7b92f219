"""Link kinds: the rows of ``links.toml``."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sim.cluster import LinkKind
from sim.errors import TopologyError, unknown


@cache
def link_kinds() -> Mapping[str, LinkKind]:
    """Return every kind of link by name; ``like = "network"``: constants it lacks are those of ``[like.network]``."""
    rows: dict[str, dict[str, Any]] = tomllib.loads(
        Path(__file__).with_name("links.toml").read_text(encoding="utf-8")
    )
    shared = rows.pop("like", {})
    kinds = {}
    for name, row in rows.items():
        inherited = shared.get(row.pop("like", ""), {})
        row["constants"] = {**inherited, **row.get("constants", {})}
        kinds[name] = LinkKind(name=name, **row)
    return kinds


def link_kind(name: str) -> LinkKind:
    """Return the kind called ``name``; raises `TopologyError` with near names."""
    kinds = link_kinds()
    if name not in kinds:
        raise TopologyError(unknown("link kind", name, kinds))
    return kinds[name]
