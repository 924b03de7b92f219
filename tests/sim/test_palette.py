"""Colours: told apart by eyes that miss red or green, the same words everywhere."""

from itertools import combinations

import numpy as np
import pytest

from sim.palette import (
    AXES,
    CAUSES,
    PHASES,
    axis_hue,
    cause_hue,
    ink,
    memory_colours,
    mix,
    rgb,
    shade,
)

DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
)
PROTANOPIA = np.array(
    [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]
)
"""Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB."""
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, seen=None):
    linear = np.array(
        [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb(colour)]
    )
    if seen is not None:
        linear = np.clip(seen @ linear, 0, 1)
    f = np.cbrt(XYZ @ linear / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize(
    "seen", [None, DEUTERANOPIA, PROTANOPIA], ids=["all", "no green", "no red"]
)
@pytest.mark.parametrize("family", [PHASES, AXES], ids=["phases", "axes"])
def test_colours_of_a_family_stay_apart(family, seen) -> None:
    for a, b in combinations(family.values(), 2):
        assert np.linalg.norm(lab(a.colour, seen) - lab(b.colour, seen)) > 11, (a, b)


def test_phases_have_one_colour_in_charts_and_ledger() -> None:
    assert CAUSES["compute"].colour == PHASES["F"].colour
    assert CAUSES["recompute"].colour == PHASES["R"].colour
    assert cause_hue("exposed.tp").colour == axis_hue("tp").colour == AXES["tp"].colour


def test_a_channel_and_a_part_of_an_axis_have_its_colour() -> None:
    assert axis_hue("pp.next").colour == AXES["pp"].colour
    assert axis_hue("edp").colour == AXES["ep"].colour
    assert axis_hue("embedding").label == "embedding"


def test_shades_run_from_dark_to_light() -> None:
    sums = [sum(rgb(shade(PHASES["F"].colour, c, 8))) for c in range(8)]
    assert sums == sorted(sums)
    assert len(set(sums)) == 8


def test_mix_and_ink() -> None:
    assert mix("#204060", 0.0) == "#204060"
    assert mix("#204060", 1.0) == "#ffffff"
    assert mix("#204060", -1.0) == "#000000"
    assert (ink("#000000"), ink("#ffffff")) == ("#ffffff", "#1a1a1a")


def test_a_memory_category_keeps_its_colour_whatever_else_is_there() -> None:
    few, more = memory_colours(["activations"]), memory_colours(["x", "activations", "parameters"])
    assert few["activations"] == more["activations"]
    assert list(more) == ["parameters", "activations", "x"]
