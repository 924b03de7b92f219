"""Run presets: the run files that ship, by name."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from sim.errors import InputError, unknown


@cache
def run_presets() -> tuple[str, ...]:
    """Return the names of the runs that ship, sorted."""
    folder = files("experiments").joinpath("runs")
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def preset_table(name: str) -> dict[str, Any]:
    """Return the table of a run preset. Raises `InputError` with near names."""
    if name not in run_presets():
        raise InputError(f"{unknown('run', name, run_presets())}; or give the path of a .toml file")
    text = files("experiments").joinpath("runs", f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
