"""Write fitted constants to the device files: the part below a marker, the rest as people wrote it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import topologies.devices

MARKER = "# Written by experiments.calibration.kernels; not edited by hand below this line."
FOLDER = Path(topologies.devices.__file__).parent


def render(constants: Mapping[str, float], comments: Sequence[str]) -> str:
    """Return the TOML of fitted constants: dotted keys as tables under ``fitted``."""
    tables: dict[str, dict[str, float]] = {}
    for key, value in constants.items():
        prefix, name = key.rsplit(".", 1)
        tables.setdefault(prefix, {})[name] = value
    lines = [MARKER, *(f"# {comment}" for comment in comments)]
    for prefix in sorted(tables):
        lines += ["", f"[fitted.{prefix}]"]
        lines += [f"{name} = {tables[prefix][name]!r}" for name in sorted(tables[prefix])]
    return "\n".join(lines) + "\n"


def write_calibration(
    name: str, constants: Mapping[str, float], comments: Sequence[str], folder: Path = FOLDER
) -> None:
    """Replace the fitted part of the file of the device called ``name``."""
    path = folder / f"{name}.toml"
    kept = path.read_text(encoding="utf-8").split(MARKER)[0].rstrip()
    path.write_text(f"{kept}\n\n{render(constants, comments)}", encoding="utf-8")
