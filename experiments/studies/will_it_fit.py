"""Will it fit: how large a model do 8 to 1,024 devices hold under each stage of ZeRO?

Expected: the baseline does not profit from more devices at all, ZeRO-1 and 2 run against the unsharded parameters
(and gradients), ZeRO-3 grows with the devices (Rajbhandari et al. 2020, table 1) until one gathered layer and the
activations of one sequence, which it does not shard, fill the device: then only tensor or pipeline parallelism helps.
"""

from typing import TYPE_CHECKING

from experiments.largest_model import largest_model
from experiments.study import claim, write
from experiments.study_figure import figure, legend, line, powers
from sim.units import GB, GIGA

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CLUSTERS = {
    "a100-superpod": "A100-80",
    "h100-fat-tree": "H100-80",
    "h200-fat-tree": "H200-141",
    "b200-fat-tree": "B200-180",
}
DEVICES = (8, 64, 1024)
NAMES = ("baseline", "ZeRO-1", "ZeRO-2", "ZeRO-3")
START = (4.0, 12.0, 18.0, 36.0)
"""Where the search starts, billions of parameters on 8 devices."""
GROWTH = (1.0, 1.3, 1.5, 6.5)
"""Where it starts on more devices: so many times what the number before held."""
MOST_STATES = 0.75
"""States' share of the peak on most devices, at most so much of that on fewest: what is not sharded takes over."""


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Find the largest model by replay, a row a cluster, stage and number of devices."""
    import pandas as pd

    rows = []
    for name in list(CLUSTERS)[:1] if quick else CLUSTERS:
        for zero in range(4):
            guess = START[zero] * GIGA
            for devices in DEVICES[:2] if quick else DEVICES:
                found = largest_model(name, devices, zero, guess)
                guess = float(found.num_params) * GROWTH[zero]
                rows.append(
                    {
                        "device": CLUSTERS[name],
                        "stage": NAMES[zero],
                        "devices": devices,
                        "largest_B": found.num_params / GIGA,
                        "layers": found.model.num_layers,
                        "hidden_size": found.model.hidden_size,
                        "peak_GB": found.live_bytes / GB,
                        "states_share": found.state_bytes / found.live_bytes,
                    }
                )
    return pd.DataFrame(rows)


def check(frame: "pd.DataFrame") -> str:
    """The baseline stays, later stages grow, ZeRO-3 grows most."""
    table = frame.pivot_table(index=["device", "devices"], columns="stage", values="largest_B")
    for device, part in table.groupby("device"):
        claim((part["baseline"] == part["baseline"].iloc[0]).all(), device)
        claim(part.diff().iloc[1:].min().min() >= 0.0, device)
    claim((table["baseline"] < table["ZeRO-1"]).all(), "the baseline should hold less than ZeRO-1")
    claim((table["ZeRO-1"] <= table["ZeRO-2"]).all(), "ZeRO-1 should hold no more than ZeRO-2")
    claim((table["ZeRO-2"] <= table["ZeRO-3"]).all(), "ZeRO-2 should hold no more than ZeRO-3")
    first, last = table.loc["A100-80"].iloc[0], table.loc["A100-80"].iloc[-1]
    third = frame[frame.stage == "ZeRO-3"]
    few, share = (
        third[third.devices == count].states_share.max()
        for count in (min(frame.devices), max(frame.devices))
    )
    claim(
        len(set(frame.devices)) < len(DEVICES) or share < MOST_STATES * few,
        f"states are {share:.2f} of the peak, {few:.2f} on few devices",
    )
    return (
        f"On A100-80 the baseline holds {first['baseline']:.1f}B on any number of devices; ZeRO-3 holds "
        f"{first['ZeRO-3']:.0f}B on 8 and {last['ZeRO-3']:,.0f}B on {max(frame.devices):,}, where states are "
        f"{share:.0%} of the peak ({few:.0%} on {min(frame.devices)}), gathered layers and activations the rest.\n"
        "Held against: the order baseline < ZeRO-1 <= ZeRO-2 <= ZeRO-3 at every size, growth with devices for all but "
        "the baseline; one sequence of 2,048 a device, full recompute, 16 bytes a parameter."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw size against devices, a panel a device."""
    kinds = list(dict.fromkeys(frame.device))
    made, charts = figure(
        "Only ZeRO-3 keeps turning devices into model size; the baseline never does",
        len(kinds),
        sharey=True,
        height=4.3,
    )
    for axes, kind in zip(charts, kinds, strict=True):
        part = frame[frame.device == kind]
        for number, stage in enumerate(NAMES):
            rows = part[part.stage == stage]
            line(axes, rows.devices, rows.largest_B, stage, number)
        axes.axhline(405, color="#8a8a8a", linewidth=1, linestyle=":")
        powers(axes, sorted(set(frame.devices)), "devices")
        powers(axes, (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048), "", axis="y")
        axes.set_title(kind, fontsize=10, loc="left")
    charts[0].text(8, 425, "Llama 3 405B", fontsize=8, color="#5a5a5a")
    charts[0].set_ylabel("largest model, billions of parameters", fontsize=10)
    legend(charts[-1], loc="upper left")
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
