"""How do the plans of other published models replay, and what would one changed knob do to each?

OLMo 7B (FSDP alone), DeepSeek LLM 67B and Yi 34B (ZeRO-1, TP, PP), Gemma 2 27B (FSDP and model parallel on TPU v5p),
Mixtral 8x22B and Qwen3 235B-A22B (EP, PP, TP), Nemotron-4 340B (TP, PP), Nemotron 3 Super (a hybrid; EP over FSDP).
Step times are published for four of them; where a plan is only partly published the table says what was assumed.
Sources: in the table, a line each.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.case import AS_RUN, Case, case_figure, case_rows
from experiments.study import write
from experiments.trial import preset_run
from workloads.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEQ: dict[str, Any] = {"seq_len": 4096, "zero": 1}
TP_SP: dict[str, Any] = {**SEQ, "sequence_parallel": True}


def cases() -> list[Case]:
    """Return the runs and their knobs."""
    olmo, super_ = preset_run("olmo-7b"), preset_run("nemotron-3-super")
    return [
        Case(name="OLMo 7B", model=olmo.model.name, cluster=olmo.cluster.preset, plan=olmo.plan,
             parameters=olmo.cluster.parameters, source=olmo.source, assumed="software profile torch-fsdp",
             knobs={"ZeRO-1, no parameter gathers": {"zero": 1}, "microbatch 1": {"microbatch": 1}}),
        Case(name="DeepSeek LLM 67B", model="deepseek-llm-67b", cluster="h800-fat-tree",
             plan=Plan(tp=8, pp=4, dp=16, global_batch=1024, **TP_SP),
             source="arXiv 2401.02954, section 2.4 (kinds of parallelism)", assumed="degrees, batch, H800",
             knobs={"TP 2, PP 8": {"tp": 2, "pp": 8, "dp": 32}}),
        Case(name="Yi 34B", model="yi-34b", cluster="a100-superpod",
             plan=Plan(tp=4, pp=4, dp=16, global_batch=1024, recompute="selective", **TP_SP),
             source="arXiv 2403.04652, section 4 (kinds of parallelism)", assumed="degrees, batch, A100",
             knobs={"TP 8, PP 2": {"tp": 8, "pp": 2}}),
        Case(name="Gemma 2 27B", model="gemma2-27b", cluster="tpu-v5p",
             plan=Plan(tp=8, dp=768, global_batch=1536, seq_len=8192, zero=3, sequence_parallel=True, recompute="full",
                       software="xla"),
             source="arXiv 2408.00118, table 3 (6,144 chips, 768 data, 8 model)", assumed="batch, recompute",
             knobs={"no model parallelism": {"tp": 1, "dp": 6144, "global_batch": 6144, "sequence_parallel": False}}),
        Case(name="Mixtral 8x22B", model="mixtral-8x22b", cluster="h100-fat-tree", published_s=16.81,
             plan=Plan(tp=2, pp=8, ep=4, etp=2, dp=8, global_batch=1024, **TP_SP),
             source="MoE Parallel Folding (arXiv 2504.14960)", assumed="microbatch 1, no recompute",
             knobs={"experts whole: EP 8, ETP 1": {"ep": 8, "etp": 1}}),
        Case(name="Qwen3 235B-A22B", model="qwen3-235b-a22b", cluster="h100-fat-tree", published_s=19.7,
             plan=Plan(tp=2, pp=8, chunks=4, schedule="interleaved", ep=32, dp=16, global_batch=2048,
                       dispatcher="deepep",
                       recompute="selective", recompute_modules=("norm", "moe_act"), **TP_SP),
             source="yanring/Megatron-MoE-ModelZoo", assumed="DeepEP dispatcher",
             knobs={"plain all-to-all": {"dispatcher": "alltoall"}, "EP 8 (a host)": {"ep": 8}}),
        Case(name="Nemotron-4 340B", model="nemotron4-340b", cluster="gb200-nvl72", published_s=2.189,
             plan=Plan(tp=8, pp=4, chunks=12, schedule="interleaved", dp=4, global_batch=32, **TP_SP),
             source="NVIDIA dgxc-benchmarking v25.05.05", assumed="recompute none",
             knobs={"2 chunks, not 12": {"chunks": 2}}),
        Case(name="Nemotron 3 Super", model=super_.model.name, cluster=super_.cluster.preset, plan=super_.plan,
             parameters=super_.cluster.parameters, source=super_.source, published_s=7.286,
             assumed="software profile torch-fsdp",
             knobs={"EP 8 (a host)": {"ep": 8}, "full recompute": {"recompute": "full"}}),
    ]  # fmt: skip


def run(*, quick: bool = False) -> pd.DataFrame:
    """Replay all cases, and their knobs."""
    return pd.DataFrame(case_rows(cases(), quick=quick))


def check(frame: pd.DataFrame) -> str:
    """Published steps within 25 %; knobs against the lecture's rules cost time."""
    runs = frame[frame["variant"] == AS_RUN]
    known = runs.dropna(subset="published_s").set_index("case")
    off = known["step_time_s"] / known["published_s"] - 1
    assert off.abs().max() < 0.25
    base = runs.set_index("case")["step_time_s"]
    turned = {
        str(r.variant): float(str(r.step_time_s)) / base[r.case] - 1 for r in frame.itertuples()
    }
    if "plain all-to-all" in turned:
        assert turned["plain all-to-all"] > 0
        assert turned["experts whole: EP 8, ETP 1"] < 0.05
    knob = max(turned, key=lambda name: abs(turned[name]))
    shown = ", ".join(f"{name} {o:+.0%}" for name, o in off.items())
    return (
        f"Where a step time is published the replay is off by {shown}; MFU of all runs: "
        f"{runs['mfu'].min():.0%} to {runs['mfu'].max():.0%}.\nThe knob that matters most: {knob}, {turned[knob]:+.0%}."
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
