"""Should expert parallelism stay within a host, or may it go across hosts?

12 layers of Qwen3 235B-A22B and 8 of DeepSeek-V3 (a stage of a pipeline each) on 64 H100 in hosts of 8 and on 64
GB200 of one NVL72 rack, attention data parallel; EP from 8 to 64, tokens sent by a library's all-to-all or by a
kernel that crosses to a host once a token. Expected: across hosts an all-to-all is bound by the network cards, so EP
stays within the host where its experts fit; past it the kernel and routing limited to few hosts carry it; in a rack
EP goes as far as the rack. The sources give the order; the factors of 2 that the check asks for are its own. Sources:
the lecture; DeepSeek-V3 report, 3.2.2; Megatron-Core MoE guide.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from experiments.chart import figure, label
from experiments.study import claim, write
from experiments.study_figure import SERIES, legend, powers
from experiments.trial import Row, numbers, trial
from workloads.models import model
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEVICES, SEQ_LEN, MICROBATCHES = 64, 4096, 4
FABRICS = {"hosts of 8 (H100)": ("h100-fat-tree", 8), "one rack (GB200 NVL72)": ("gb200-nvl72", 64)}
"""Name: preset, and devices in a scale-up domain."""
MODELS = {"qwen3-235b-a22b": 12, "deepseek-v3": 8}
"""Layers of each, all of them mixtures."""
DEGREES = (8, 16, 32, 64)
WAYS = {"alltoall": "library all-to-all", "deepep": "expert-parallel kernel"}


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay every degree and way on both machines."""
    rows = []
    for fabric, (preset, domain) in FABRICS.items():
        for name, layers in list(MODELS.items())[1 if quick else 0 :]:
            shape = replace(model(name), num_layers=layers, num_dense_layers=0, num_mtp_layers=0)
            for way in WAYS:
                for ep in DEGREES:
                    plan = Plan(dp=DEVICES, ep=ep, global_batch=DEVICES * MICROBATCHES, seq_len=SEQ_LEN, zero=1,
                                dispatcher=way, recompute="full")  # fmt: skip
                    result = trial(shape, preset, plan)
                    found = numbers(result)
                    row: Row = {"fabric": fabric, "model": name, "dispatcher": way, "ep": ep,
                                "domains": max(ep // domain, 1)}  # fmt: skip
                    row |= {k: found[k] for k in ("step_time_s", "mfu", "peak_memory_gib", "fits")}
                    for axis in ("ep", "edp"):
                        row[f"exposed_{axis}_s"] = result.mean.get(f"exposed.{axis}", 0.0)
                    rows.append(row)
    return pd.DataFrame(rows)


def check(frame: pd.DataFrame) -> str:
    """Across hosts an all-to-all costs twice and more, a kernel less; on a rack EP only gains; memory may decide."""
    hosts, rack = FABRICS
    row = frame.set_index(["fabric", "model", "dispatcher", "ep"]).sort_index()
    cost, best = {}, {}
    for name in dict.fromkeys(frame["model"]):
        near, far = (row.loc[(hosts, name, "alltoall", ep), "exposed_ep_s"] for ep in (8, 16))
        kernel = row.loc[(hosts, name, "deepep", 16), "exposed_ep_s"]
        claim(far > 2 * near, "two hosts should expose over twice one host's exchange")
        claim(kernel < 0.5 * far, "the kernel should halve the exposed exchange")
        for way in WAYS:
            claim(
                (row.loc[(rack, name, way), "mfu"].diff().dropna() > 0).all(),
                "in a rack every step of EP should gain",
            )
        cost[name] = (far / near, far / kernel)
        here = frame[(frame["fabric"] == hosts) & (frame["model"] == name) & frame["fits"]]
        best[name] = here.sort_values("mfu").groupby("dispatcher").last()
    claim(
        not row.loc[(hosts, "deepseek-v3", "deepep", 8), "fits"],
        "DeepSeek-V3 should not fit at EP = 8 on H100",
    )
    times, gains = (", ".join(f"{c[i]:.1f}" for c in cost.values()) for i in (0, 1))
    chosen = "; ".join(
        f"{name} EP = {found.loc['alltoall', 'ep']} by all-to-all ({found.loc['alltoall', 'mfu']:.0%} MFU), "
        f"{found.loc['deepep', 'ep']} by the kernel ({found.loc['deepep', 'mfu']:.0%})"
        for name, found in best.items()
    )
    return (
        f"Going from 8 (one host) to 16 (two) exposes {times} times as much all-to-all ({', '.join(cost)}); a kernel "
        f"that crosses once a token cuts that by {gains} times.\nBest that fits on hosts of 8: {chosen}; in one rack "
        f"every step up to EP = 64 gains."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw MFU over EP, a panel a model; hollow: does not fit."""
    names = list(dict.fromkeys(frame["model"]))
    chart, panels = figure(
        "Across hosts expert parallelism needs a kernel of its own; in a rack it does not",
        len(names),
        sharey=True,
    )
    for axes, name in zip(panels, names, strict=True):
        part = frame[frame["model"] == name]
        for index, ((fabric, way), line) in enumerate(
            part.groupby(["fabric", "dispatcher"], sort=False)
        ):
            colour, style = SERIES[index // 2], ("--", "-")[index % 2]
            axes.plot(
                line["ep"], line["mfu"], style, color=colour, lw=1.8, label=f"{fabric}, {WAYS[way]}"
            )
            for fits, face in ((True, colour), (False, "white")):
                at = line[line["fits"] == fits]
                axes.plot(at["ep"], at["mfu"], "o", mfc=face, mec=colour, ms=6)
        powers(axes, DEGREES, "expert parallelism")
        axes.axvline(8, color="#8a8a8a", ls=":", lw=1.2)
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.set_ylim(0, 1.08 * frame["mfu"].max())
        label(
            axes,
            "expert parallelism (dotted: one host; hollow: does not fit)",
            "MFU" if axes is panels[0] else "",
            name,
        )
    legend(panels[-1], loc="lower right", fontsize=8)
    return chart


def main() -> None:
    """Write the answer into results."""
    write(__file__)
