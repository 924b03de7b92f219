"""When data parallelism eats the batch, how long does training to a loss take, and what do TP and PP change?

Expected: steps to a loss target are s0 (1 + Bc / B): beyond the critical batch Bc larger batches buy no fewer steps,
so adding devices by data parallelism stops paying (here it slows training down again, since its rings grow too), and
they are better spent on a shorter step by TP and PP (CS336 lecture 8; McCandlish et al. 2018, 1812.06162, eq. 2.11).
Bc = 2e8 tokens / L^4.76 (Kaplan et al. 2020, 2001.08361, eq. 5.3), at L = 2.3 3.8 million tokens.
"""

from typing import TYPE_CHECKING, NamedTuple

from experiments.study import claim, replay, write
from experiments.study_figure import figure, legend, line, powers
from sim.units import MEGA
from workloads.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MODEL, SEQ_LEN = "llama3-8b", 4096
LOSS = 2.3
CRITICAL_TOKENS = 200.0 * MEGA / LOSS ** (1.0 / 0.21)
CROSSING = 1024
"""Most devices on which data parallelism alone should be best: its batch is about critical there."""
DEVICES = (64, 256, 1024, 4096, 16384)


class Strategy(NamedTuple):
    """Degrees, the microbatches tried, and the software that runs it."""

    tp: int
    pp: int
    microbatches: tuple[int, ...]
    software: str = "megatron-core"


STRATEGIES = {
    "data parallel": Strategy(1, 1, (1, 2, 4)),
    "TP 8": Strategy(8, 1, (1, 2, 4, 8)),
    "TP 8 x PP 4": Strategy(8, 4, (4, 8, 16, 32)),
}


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Replay every strategy on 64 to 16,384 H100s at several batches; keep the batch with the shortest training."""
    import pandas as pd

    counts = DEVICES[1:3] if quick else DEVICES
    return pd.DataFrame([_best(devices, name) for devices in counts for name in STRATEGIES])


def _best(devices: int, name: str) -> dict[str, object]:
    strategy = STRATEGIES[name]
    dp = devices // (strategy.tp * strategy.pp)
    rows = []
    for microbatches in strategy.microbatches:
        plan = Plan(
            tp=strategy.tp,
            pp=strategy.pp,
            dp=dp,
            zero=1,
            global_batch=dp * microbatches,
            seq_len=SEQ_LEN,
            sequence_parallel=strategy.tp > 1,
            software=strategy.software,
        )
        step = replay(MODEL, "h100-fat-tree", devices, plan).timeline.step_time
        batch = float(dp * microbatches * SEQ_LEN)
        rows.append(
            {
                "devices": devices,
                "strategy": name,
                "batch_tokens": batch,
                "batch_over_critical": batch / CRITICAL_TOKENS,
                "step_s": step,
                "steps_over_s0": 1.0 + CRITICAL_TOKENS / batch,
                "time_over_s0_s": step * (1.0 + CRITICAL_TOKENS / batch),
            }
        )
    return min(rows, key=lambda row: float(str(row["time_over_s0_s"])))


def check(frame: "pd.DataFrame") -> str:
    """Data parallelism wins below the critical batch and stops paying above; TP x PP goes on."""
    time = frame.pivot_table(index="devices", columns="strategy", values="time_over_s0_s")
    batch = frame.pivot_table(index="devices", columns="strategy", values="batch_over_critical")
    for devices in (d for d in time.index if d <= CROSSING):
        claim(
            time.loc[devices].idxmin() == "data parallel",
            f"data parallelism is not best on {devices}",
        )
    if max(time.index) < 16384:
        return "Quick form: data parallelism is best on 256 and 1,024 devices.\nHeld against: the order there."
    gain = {name: time.loc[1024, name] / time.loc[16384, name] for name in STRATEGIES}
    claim(
        batch.loc[16384, "data parallel"] > 10.0,
        "data parallelism should take over 10 critical batches",
    )
    claim(
        gain["data parallel"] < 1.0,
        f"data parallelism still gains {gain['data parallel']:.2f} times",
    )
    claim(gain["TP 8 x PP 4"] > 2.0, gain)
    claim(time.loc[16384].idxmin() == "TP 8 x PP 4", "TP x PP should be best on 16,384")
    best, parts = (time.loc[n, s] for n, s in ((CROSSING, "data parallel"), (16384, "TP 8 x PP 4")))
    return (
        f"Data parallelism alone is best up to 1,024 H100s and {1 / gain['data parallel']:.1f} times slower on 16,384; "
        f"TP 8 x PP 4 there is {best / parts:.1f} times as fast as its best.\n"
        f"Held against: steps = s0 (1 + Bc / B), Bc {CRITICAL_TOKENS / MEGA:.1f}M tokens: data parallelism best to "
        f"1,024 devices, no gain beyond; TP x PP over 2 times as fast on 16,384 as on 1,024 (found "
        f"{gain['TP 8 x PP 4']:.1f})."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw time to the target and the batch taken, against devices."""
    made, (left, right) = figure(
        "Beyond the critical batch more data parallelism costs time; TP and PP still gain", 2
    )
    for number, name in enumerate(STRATEGIES):
        rows = frame[frame.strategy == name]
        line(left, rows.devices, rows.time_over_s0_s, name, number)
        line(right, rows.devices, rows.batch_over_critical, name, number)
    counts = sorted(set(frame.devices))
    first = frame[frame.devices == counts[0]].time_over_s0_s.min()
    left.plot(
        counts,
        [first * counts[0] / n for n in counts],
        color="#8a8a8a",
        linestyle="--",
        linewidth=1,
    )
    left.text(
        counts[-2] * 0.32,
        first * counts[0] / counts[-2] * 1.1,
        "ideal",
        fontsize=8.5,
        color="#5a5a5a",
    )
    right.axhline(1.0, color="#8a8a8a", linestyle="--", linewidth=1)
    right.text(counts[0], 1.15, "critical batch", fontsize=8.5, color="#5a5a5a")
    for axes in (left, right):
        powers(axes, counts, "H100s")
    powers(
        left,
        (0.125, 0.25, 0.5, 1, 2, 4, 8, 16),
        "time to the loss target, s (s0 = 1 step)",
        axis="y",
    )
    powers(right, (0.0625, 0.25, 1, 4, 16), "batch chosen / critical batch", axis="y")
    legend(left, loc="lower left")
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
