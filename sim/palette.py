"""Palette: one colour for every phase, axis, cause and memory category, the same in charts, traces and reports.

Hues keep apart for people who see no red or no green: blue, green and dark teal differ in lightness, warm hues are
communication, greys are overhead, the lightest grey is idle.
"""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

Rgb = tuple[float, float, float]


class Hue(NamedTuple):
    """A colour (``#rrggbb``) and what a legend calls it."""

    colour: str
    label: str


PHASES = {
    "F": Hue("#4a86d8", "forward"),
    "B": Hue("#74c476", "backward"),
    "W": Hue("#07594f", "weight gradient"),
    "R": Hue("#f2b134", "recompute"),
    "O": Hue("#929292", "optimizer"),
}
"""Kernels by phase; ``B`` is a fused backward too."""
AXES = {
    "tp": Hue("#c2347f", "tp"),
    "cp": Hue("#e8d21d", "cp"),
    "ep": Hue("#8c4a1f", "ep"),
    "pp": Hue("#7d54b8", "pp"),
    "dp": Hue("#e2571e", "dp"),
}
"""Communication by mesh axis."""
OTHER_AXIS = Hue("#444444", "other")
HOST_HUE = Hue("#b9a48c", "host")
IDLE = Hue("#f4f4f4", "idle")
ALIASES = {"edp": "ep", "etp": "tp", "shard": "dp", "replica": "dp", "fsdp": "dp", "hsdp": "dp"}
"""Axes that are parts of another one share its colour."""
ACTION_PHASE = {"F": "F", "B": "B", "BW": "B", "W": "W", "F&B": "B", "optimizer": "O"}
"""Phase whose colour an action has."""

CAUSES = {
    "compute": Hue("#4a86d8", "useful compute"),
    "recompute": Hue("#f2b134", "recompute"),
    "optimizer": Hue("#929292", "optimizer"),
    "overlap_slowdown": Hue("#9db9dd", "slowed by communication"),
    "bubble.warmup": Hue("#cdcdcd", "bubble: warm-up"),
    "bubble.steady": Hue("#a9a9a9", "bubble: steady"),
    "bubble.drain": Hue("#dedede", "bubble: drain"),
    "launch": Hue("#b9a48c", "launch"),
    "wait.end": Hue("#efe6da", "wait for the end"),
}
"""Ledger causes; ``exposed.<axis>`` has its axis's colour and ``wait.<axis>`` a light form of it."""
MEMORY = {
    "parameters": "#2b5a94",
    "gradients": "#4a86d8",
    "optimizer": "#9db9dd",
    "gathered": "#0b6e64",
    "activations": "#74c476",
    "logits": "#f2b134",
    "temporary": "#c98f2c",
    "communication": "#7d54b8",
    "buffers": "#7d54b8",
    "context": "#7f7f7f",
}
"""Memory categories, in the order a stack lists them from the ground."""
MORE_MEMORY = ("#c2347f", "#8c4a1f", "#e2571e", "#a9a9a9", "#c2e4c3")
"""Colours of other categories, in order of their names."""


def memory_colours(categories: Iterable[str]) -> dict[str, str]:
    """Return the colour of each memory category, in the order of the stack."""
    present = set(categories)
    known = {name: colour for name, colour in MEMORY.items() if name in present}
    others = sorted(present - set(MEMORY))
    return known | {name: MORE_MEMORY[i % len(MORE_MEMORY)] for i, name in enumerate(others)}


@cache
def axis_hue(axis: str) -> Hue:
    """Return the hue of a mesh axis or channel: ``pp.next`` is ``pp``."""
    first = axis.partition(".")[0]
    known = AXES.get(first) or AXES.get(ALIASES.get(first, ""))
    return Hue((known or OTHER_AXIS).colour, first or OTHER_AXIS.label)


def cause_hue(cause: str) -> Hue:
    """Return the hue of a ledger cause."""
    if cause in CAUSES:
        return CAUSES[cause]
    group, _, axis = cause.partition(".")
    hue = axis_hue(axis)
    if group == "exposed":
        return Hue(hue.colour, f"exposed {hue.label}")
    if group == "wait":
        return Hue(mix(hue.colour, 0.6), f"wait for {hue.label} peers")
    return Hue(OTHER_AXIS.colour, cause)


@cache
def rgb(colour: str) -> Rgb:
    """Return the three channels of ``#rrggbb``, 0..1."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


@cache
def mix(colour: str, white: float) -> str:
    """Return a colour with a share of white in it (negative: of black)."""
    target, share = (1.0, white) if white >= 0 else (0.0, -white)
    return "#" + "".join(f"{round(255 * (c + (target - c) * share)):02x}" for c in rgb(colour))


@cache
def shade(colour: str, chunk: int, num_chunks: int) -> str:
    """Return the shade of a chunk: the first the darkest, as in Megatron's figures.

    >>> shade("#4a86d8", 0, 1)
    '#4a86d8'
    """
    if num_chunks < 2 or chunk < 0:
        return colour
    return mix(colour, -0.25 + 0.8 * chunk / (num_chunks - 1))


@cache
def ink(colour: str) -> str:
    """Return black or white, whichever reads better on a colour."""
    red, green, blue = rgb(colour)
    return "#ffffff" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.55 else "#1a1a1a"
