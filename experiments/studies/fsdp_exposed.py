"""When does FSDP's communication show: against tokens a device, and with the network cut 8 times?

Expected: a step is as long as the longer of its two lanes, so communication shows below the tokens a device at which
computing takes as long as two gathers and a reduction: bytes a parameter / bandwidth x FLOP/s / 6, whatever the
model's size; cutting bandwidth 8 times moves that crossover 8 times (CS336 lecture 8; TPU book, section 5). One
device, which could not hold the model, is the measure of computing; the longest sequences would need recomputation to
fit.
"""

from typing import TYPE_CHECKING

import numpy as np

from experiments.study import claim, replay, write
from experiments.study_figure import figure, legend, line, powers
from experiments.trial import fits
from sim.metrics import flops_per_device, mfu
from sim.units import Gbit
from workloads.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MODEL, DEVICES, SOFTWARE = "llama3-8b", 64, "torch-compiled"
NIC_GBIT = (400, 200, 100, 50)
TOKENS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Tokens a device: one sequence of up to 4,096, more sequences of 4,096 above."""
LONGEST = 4096
BYTES = 2.0 + 2.0 + 4.0
"""Bytes a parameter moves: gathered in bf16 twice, reduced in fp32 once."""
NICS = 8
"""NICs a host: its 8 devices' ring leaves and enters by all of them."""
SHOWS = 0.2
"""Exposed share at which communication counts as visible."""
FACTOR, LOST = 1.5, 0.03


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Replay Llama 3 8B under FSDP on 64 H100s over tokens a device and NIC rates, and on one device."""
    import pandas as pd

    rates = NIC_GBIT[::3] if quick else NIC_GBIT
    return pd.DataFrame([_row(rate, tokens) for rate in rates for tokens in TOKENS])


def _row(rate: int, tokens: int) -> dict[str, object]:
    seq_len = min(tokens, LONGEST)
    sequences = tokens // seq_len
    plan = Plan(
        dp=DEVICES,
        zero=3,
        microbatch=sequences,
        global_batch=DEVICES * sequences,
        seq_len=seq_len,
        software=SOFTWARE,
    )
    result = replay(MODEL, "h100-fat-tree", DEVICES, plan, nic_bandwidth=rate * Gbit)
    single = Plan(microbatch=sequences, global_batch=sequences, seq_len=seq_len, software=SOFTWARE)
    alone = replay(MODEL, "h100-fat-tree", 1, single)
    computing = alone.mean["compute"]
    step = result.timeline.step_time
    achieved = flops_per_device(alone.timeline) * alone.timeline.step_time / computing
    return {
        "nic_Gbit": rate,
        "tokens_per_device": tokens,
        "step_s": step,
        "compute_s": computing,
        "exposed_share": result.mean.get("exposed.dp", 0.0) / step,
        "slowdown_share": result.mean.get("overlap_slowdown", 0.0) / step,
        "mfu": mfu(result.timeline),
        "mfu_one_device": mfu(alone.timeline),
        "fits": fits(result),
        "analytic_crossover": BYTES / (NICS * rate * Gbit) * achieved / 6.0,
    }


def crossover(part: "pd.DataFrame") -> float:
    """Tokens a device below which a fifth of the step is exposed: where its lanes would meet (interpolated)."""
    shares = part.exposed_share.to_numpy()[::-1]
    tokens = np.log(part.tokens_per_device.to_numpy()[::-1])
    return float(np.exp(np.interp(SHOWS, shares, tokens))) / (1.0 - SHOWS)


def check(frame: "pd.DataFrame") -> str:
    """Crossovers are the analytic ones within 1.5, 8 times less bandwidth moves them 6 to 10 times."""
    found = {int(str(rate)): crossover(part) for rate, part in frame.groupby("nic_Gbit")}
    expected = frame.groupby("nic_Gbit").analytic_crossover.median()
    ratios = [tokens / expected[rate] for rate, tokens in found.items()]
    claim(max(ratios) < FACTOR, ratios)
    claim(min(ratios) > 1.0 / FACTOR, ratios)
    moved = found[min(found)] / found[max(found)]
    claim(6.0 < moved < 10.0, f"8 times less bandwidth moves the crossover {moved:.1f} times")
    fast = frame[(frame.nic_Gbit == 400) & (frame.tokens_per_device == 8192)].iloc[0]
    kept = fast.mfu / fast.mfu_one_device
    claim(kept > 1.0 - LOST, f"FSDP keeps {kept:.3f} of one device's MFU")
    return (
        f"FSDP's communication shows below {found[max(found)]:,.0f} tokens a device at 8 x 400 Gb/s a host and below "
        f"{found[min(found)]:,.0f} at 8 x 50: bandwidth / 8 moves the crossover x {moved:.1f}; at 8,192 tokens FSDP "
        f"keeps {min(kept, 1.0):.0%} of one device's MFU.\n"
        f"Held against: bytes / bandwidth x FLOP/s / 6 = {expected[max(found)]:,.0f} and {expected[min(found)]:,.0f} "
        f"tokens (raw rates) within {FACTOR:g} times; x 8 within 6 to 10; 3 % of one device."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw exposed share and step against tokens a device."""
    made, (left, right) = figure(
        "FSDP hides its communication above a token count set by bandwidth alone", 2
    )
    for number, (rate, part) in enumerate(frame.groupby("nic_Gbit", sort=False)):
        line(left, part.tokens_per_device, part.exposed_share, f"{rate} Gb/s a NIC", number)
        line(right, part.tokens_per_device, part.step_s, f"{rate} Gb/s a NIC", number)
        where = part.analytic_crossover.median()
        left.plot(
            [where],
            [0.0],
            marker="|",
            color=left.lines[-1].get_color(),
            markersize=16,
            clip_on=False,
        )
    alone = frame.drop_duplicates("tokens_per_device")
    line(
        right,
        alone.tokens_per_device,
        alone.compute_s,
        "kernels alone",
        6,
        linestyle="--",
        marker="",
    )
    left.set_ylabel("exposed share of the step", fontsize=10)
    left.yaxis.set_major_formatter("{x:.0%}")
    left.text(560, -0.04, "ticks: analytic crossovers", fontsize=8, color="#5a5a5a")
    powers(right, (0.0625, 0.125, 0.25, 0.5, 1, 2), "step, s", axis="y")
    for axes in (left, right):
        powers(axes, TOKENS[::2], "tokens a device and step")
        legend(axes)
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
