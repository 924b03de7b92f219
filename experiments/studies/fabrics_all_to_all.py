"""How fast does a torus, a fat tree and an all-optical machine all-to-all, from 8 to 4,096 devices?

Expected: on a torus bandwidth a device falls as the longest axis grows (its bisection grows slower than its devices:
V a / (8 W) on a ring of a, the TPU book), on a non-blocking switch it does not; as built a fat tree falls from NVLink
to the NICs at the host's edge (CS336 lecture 8: tori for predictable traffic, switches for routed tokens). At equal
speed each level carries 400 GB/s a device, so a little past the edge of a domain, where half the partners are in it
and half outside, both levels carry at once: up to 577 GB/s. Above, latency and messages of a few MB bend the switched
curves too.
"""

from typing import TYPE_CHECKING

from experiments.fabric import FABRICS, busbw_row
from experiments.study import claim, write
from experiments.study_figure import figure, legend, line, powers
from sim.units import GiB

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BYTES = 16 * GiB
DEVICES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
QUICK = (8, 64, 256)
LONGEST = {64: 4, 256: 8, 512: 8, 1024: 16, 4096: 16}
"""Longest axis of the torus of so many devices (4x4x4, 4x8x8, 8x8x8, 8x8x16, 16x16x16)."""


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Price an all-to-all of 16 GiB a device on every fabric, as built and at equal speed."""
    import pandas as pd

    return pd.DataFrame(
        [
            busbw_row(family, "all_to_all", devices, BYTES, equal=equal)
            for equal in (False, True)
            for family in FABRICS
            for devices in (QUICK if quick else DEVICES)
        ]
    )


def check(frame: "pd.DataFrame") -> str:
    """The torus falls as its longest axis grows, to a quarter at 4,096; switched fabrics keep 60 % and more."""
    equal = _table(frame, "equal")
    most = max(frame.devices)
    for devices, axis in LONGEST.items():
        if devices <= most:
            share = equal.loc["torus", devices] / equal.loc["torus", 64] * axis / LONGEST[64]
            claim(abs(share - 1.0) < 0.05, f"of the torus' law {share:.2f} is left at {devices}")
    kept = {
        f: equal.loc[f, most] / equal.loc[f, 64] for f in ("fat tree", "rack switch", "optical")
    }
    claim(min(kept.values()) > 0.6, f"a switched fabric keeps {min(kept.values()):.2f}")
    over = min(equal.loc[f, most] / equal.loc["torus", most] for f in kept)
    claim(over > (5.0 if most == max(DEVICES) else 2.5), f"switches are {over:.1f} times the torus")
    torus, optical = (equal.loc[f, 256] / equal.loc[f, 64] for f in ("torus", "optical"))
    claim(abs(torus - 0.5) < 0.05, f"the torus falls to {torus:.2f}, not to 1/2")
    claim(optical > 0.95, f"the switched fabric falls to {optical:.2f}")
    built = _table(frame, "as built")
    edge = built.loc["fat tree", 64] / built.loc["fat tree", 8]
    claim(edge < 0.2, "leaving the host should cost NVLink's rate")
    lost = equal.loc["torus", most] / equal.loc["torus", 64]
    return (
        f"From 64 to {most:,} devices of equal speed an all-to-all keeps {lost:.0%} "
        f"on a torus and {min(kept.values()):.0%} or more on switches, {over:.1f} times the torus' rate.\n"
        f"As built, a fat tree keeps {edge:.0%} of its rate once it leaves the NVLink host. "
        "Held against: one over the longest axis for the torus "
        "(within 5 %), 60 % kept and over 5 times a torus at 4,096 for switches."
    )


def _table(frame: "pd.DataFrame", speed: str) -> "pd.DataFrame":
    part = frame[frame.speed == speed]
    return part.pivot_table(index="fabric", columns="devices", values="busbw_GBps")


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw bus bandwidth against devices."""
    made, charts = figure(
        "All-to-all: a torus loses bandwidth as its longest axis grows, switches less",
        2,
        sharey=True,
    )
    for axes, speed in zip(charts, ("as built", "equal"), strict=True):
        part = frame[frame.speed == speed]
        for number, (family, fabric) in enumerate(FABRICS.items()):
            rows = part[part.fabric == family]
            line(axes, rows.devices, rows.busbw_GBps, fabric.label, number)
        title = "as built" if speed == "as built" else "400 GB/s a device at each of two levels"
        axes.set_title(title, fontsize=10, loc="left")
        powers(axes, (8, 32, 128, 512, 2048), "devices")
        powers(axes, (8, 16, 32, 64, 128, 256, 512), "", axis="y")
    charts[0].set_ylabel("bus bandwidth of 16 GiB a device, GB/s", fontsize=10)
    legend(charts[0], loc="lower left", fontsize=8.5)
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
