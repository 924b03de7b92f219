"""How much does a device send a step under DDP, ZeRO-1, ZeRO-2 and ZeRO-3?

Bytes are counted; DDP of this model would not fit. Expected: 2, 2, 2 and 3 times the parameters, times (n-1)/n
(Rajbhandari et al. 2020, section 7; CS336 lecture 8): the first three are free, the last is half as much again.
Counted from the spans of a replay, not from the formula. With gradients accumulated over m microbatches ZeRO-2 and 3
pay a reduction each time, and ZeRO-3 two gathers.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.study import claim, replay, write
from experiments.study_figure import bars, figure, legend
from sim.metrics import communication_volume
from workloads.counts import num_params
from workloads.models import model
from workloads.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MODEL = replace(model("megatron-gpt-7.5b"), tied_embeddings=False)
"""Untied, so that every parameter is one parameter wherever it is used."""
DEVICES, SEQ_LEN, VALUE_BYTES = 64, 2048, 2.0
MICROBATCHES = (1, 4)
NAMES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")
TOLERANCE = 0.001


def run(*, quick: bool = False) -> "pd.DataFrame":
    """Replay the four stages on 64 A100s; bf16 parameters and gradients."""
    import pandas as pd

    return pd.DataFrame(
        [_row(zero, m) for m in (MICROBATCHES[:1] if quick else MICROBATCHES) for zero in range(4)]
    )


def _row(zero: int, microbatches: int) -> dict[str, object]:
    plan = Plan(
        dp=DEVICES,
        zero=zero,
        global_batch=DEVICES * microbatches,
        seq_len=SEQ_LEN,
        dtype="fp16",
        software="megatron-2021",
        overlap_grad_reduce="on",
        overlap_param_gather="on",
    )
    timeline = replay(MODEL, "a100-superpod", DEVICES, plan, merged=False).timeline
    sent = sum(communication_volume(timeline, 0).values())
    parameters = num_params(MODEL) * VALUE_BYTES
    share = (DEVICES - 1) / DEVICES
    return {
        "stage": NAMES[zero],
        "microbatches": microbatches,
        "sent_bytes": sent,
        "sent_over_parameters": sent / parameters,
        "times_of_ring": sent / parameters / share,
        "expected": _expected(zero, microbatches),
    }


def _expected(zero: int, microbatches: int) -> float:
    """Copies of the parameters sent: a reduction and a gather, how often each."""
    reductions = microbatches if zero >= 2 else 1
    gathers = 2 * microbatches if zero == 3 else 1
    return float(reductions + gathers)


def check(frame: "pd.DataFrame") -> str:
    """Every volume is the formula's within 0.1 %."""
    off = (frame.times_of_ring / frame.expected - 1.0).abs().max()
    claim(off < TOLERANCE, f"volume off by {off:.4f}")
    once = frame[frame.microbatches == 1].set_index("stage").times_of_ring
    return (
        f"Counted from spans: {once['DDP']:.2f}, {once['ZeRO-1']:.2f}, {once['ZeRO-2']:.2f} and {once['ZeRO-3']:.2f} "
        "times the parameters x (n-1)/n; ZeRO-3 is 1.5 x DDP, and accumulating gradients multiplies ZeRO-2 and 3.\n"
        f"Held against: 2, 2, 2, 3 of the ZeRO paper, within {TOLERANCE:.1%}; worst here {off:.2%}."
    )


def plot(frame: "pd.DataFrame") -> "Figure":
    """Draw volumes by stage."""
    made, (axes,) = figure(
        "ZeRO-1 and ZeRO-2 are free, ZeRO-3 sends half as much again (one microbatch a step)"
    )
    groups = [
        (f"{m} microbatch{'es' if m > 1 else ''} a step", list(part.sent_over_parameters))
        for m, part in frame.groupby("microbatches", sort=True)
    ]
    bars(axes, list(NAMES), groups, text="%.2f")
    axes.set_ylabel("bytes sent a device and step /\nbytes of the parameters", fontsize=10)
    legend(axes, loc="upper left")
    return made


def main() -> None:
    """Write the answer into ``results``."""
    write(__file__)


if __name__ == "__main__":
    main()
