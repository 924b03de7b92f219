"""How do the plans of other published models replay, and what would one changed knob do to each?

OLMo 7B (FSDP alone), DeepSeek LLM 67B and Yi 34B (ZeRO-1, TP, PP), Gemma 2 27B (FSDP and model parallel on TPU v5p),
Mixtral 8x22B and Qwen3 235B-A22B (EP, PP, TP), Nemotron-4 340B (TP, PP), Nemotron 3 Super (a hybrid; EP over FSDP).
Expected: within 20 % where a step time is published (four of them). The plans are those of the run presets; where one
is only partly published the table says what was assumed. A plan that does not fit is replayed as if memory sufficed.
Sources: in the table, a line each.
"""

from typing import TYPE_CHECKING

import pandas as pd

from experiments.case import AS_RUN, Case, case_figure, case_rows, preset_case, unfit
from experiments.study import claim, write
from experiments.trial import run_config
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEMOTRON4 = Plan(
    tp=8, pp=4, chunks=12, schedule="interleaved", dp=4, global_batch=32, seq_len=4096, zero=1, sequence_parallel=True,
)  # fmt: skip


def cases() -> list[Case]:
    """Return the runs, all but one the run presets of their names, and their knobs."""
    return [
        preset_case("OLMo 7B", "olmo-7b", assumed="software profile torch-fsdp",
                    knobs={"ZeRO-1, no parameter gathers": {"zero": 1}, "microbatch 1": {"microbatch": 1}}),
        preset_case("DeepSeek LLM 67B", "deepseek-llm-67b", assumed="degrees, H800",
                    knobs={"TP 8, PP 4": {"tp": 8, "pp": 4}}),
        preset_case("Yi 34B", "yi-34b", assumed="degrees, A800", knobs={"TP 4, PP 8": {"tp": 4, "pp": 8}}),
        preset_case("Gemma 2 27B", "gemma2-27b", assumed="batch, recompute",
                    knobs={"no recompute": {"recompute": "none"}}),
        preset_case("Mixtral 8x22B", "mixtral-8x22b", published_s=15.904, assumed="microbatch 1, no recompute",
                    source="MoE Parallel Folding (arXiv 2504.14960), Table 4",
                    knobs={"experts cut: EP 4, ETP 2": {"ep": 4, "etp": 2}}),
        preset_case("Qwen3 235B-A22B", "qwen3-235b-a22b", published_s=19.7,
                    assumed="without the exchange under the other pass (17.6 s with it)",
                    knobs={"plain all-to-all": {"dispatcher": "alltoall"}, "EP 8 (a host)": {"ep": 8}}),
        Case(name="Nemotron-4 340B", config=run_config("nemotron4-340b", "gb200-nvl72", NEMOTRON4), published_s=2.189,
             source="NVIDIA dgxc-benchmarking v25.05.05", assumed="recompute none",
             knobs={"2 chunks, not 12": {"chunks": 2}}),
        preset_case("Nemotron 3 Super", "nemotron-3-super", published_s=7.286, assumed="software profile torch-fsdp",
                    knobs={"EP 8 (a host)": {"ep": 8}, "full recompute": {"recompute": "full"}}),
    ]  # fmt: skip


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay all cases, and their knobs."""
    return pd.DataFrame(case_rows(cases(), quick=quick))


def check(frame: pd.DataFrame) -> str:
    """Published steps within 20 %; knobs against the lecture's rules cost time."""
    runs = frame[frame["variant"] == AS_RUN]
    known = runs.dropna(subset="published_s").set_index("case")
    off = known["step_time_s"] / known["published_s"] - 1
    claim(off.abs().max() < 0.2, f"off by {off.abs().max():.1%}, over 20 %")
    base = runs.set_index("case")["step_time_s"]
    turned = {
        str(r.variant): float(str(r.step_time_s)) / base[r.case] - 1 for r in frame.itertuples()
    }
    if "plain all-to-all" in turned:
        claim(turned["plain all-to-all"] > 0, "the plain all-to-all should cost time")
        claim(
            turned["experts cut: EP 4, ETP 2"] > 0,
            "cutting experts should cost time (published 1.06)",
        )
    knob = max(turned, key=lambda name: abs(turned[name]))
    shown = ", ".join(f"{name} {o:+.0%}" for name, o in off.items())
    return (
        f"Where a step time is published the replay is off by {shown}.\n"
        f"MFU of all runs: {runs['mfu'].min():.0%} to {runs['mfu'].max():.0%}. The knob that matters most: {knob}, "
        f"{turned[knob]:+.0%}; {unfit(frame)}."
    )


def plot(frame: pd.DataFrame) -> "Figure":
    """Draw the runs and the knobs."""
    runs = frame[frame["variant"] == AS_RUN]
    off = float((runs["step_time_s"] / runs["published_s"] - 1).abs().max())
    title = f"Eight published plans: steps replayed within {off:.0%} where known; what one knob would do"
    return case_figure(frame, title, height=6.2)


def main() -> None:
    """Write the answer into results."""
    write(__file__)
