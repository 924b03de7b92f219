"""A simulated step for people: the plan, the numbers, the ledger as a bar, memory by stage, assumptions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from experiments.cli_output import table
from experiments.runfile import RunConfig
from sim.palette import cause_hue
from sim.units import GIGA, GiB

COLUMNS = 40
"""Characters of the longest bar."""
STAGES_SHOWN = 32


def simulation_view(config: RunConfig, summary: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield what ``simulate`` prints for people."""
    yield Text("\n".join(title_lines(config)))
    yield _numbers(summary)
    yield _ledger(summary["ledger"]["mean"], summary["step_time_s"])
    yield _memory(summary)
    if "would_fit" in summary:
        yield _would_fit(summary["would_fit"])
    if "what_if" in summary:
        yield _what_if(summary["what_if"])
    yield _notes(summary)


def title_lines(config: RunConfig) -> list[str]:
    """Return the run, its machine and its plan, three lines."""
    plan, model, cluster = config.plan, config.model, config.cluster
    degrees = ("tp", "cp", "ep", "etp", "pp", "dp")
    shown = [f"{d} {getattr(plan, d)}" for d in degrees if getattr(plan, d) > 1 or d == "dp"]
    chunks = f" x {plan.chunks} chunks" if plan.chunks > 1 else ""
    options = " ".join(f"{key}={value}" for key, value in cluster.parameters.items())
    name = model.name if config.name == model.name else f"{config.name}: {model.name}"
    lines = (
        f"{name} on {cluster.num_devices:,} devices of {cluster.preset} {options}",
        f"  {' '.join(shown)}, {plan.schedule}{chunks}, zero {plan.zero}, recompute {plan.recompute}, {plan.dtype},"
        f" software {plan.software}",
        f"  {plan.global_batch:,} sequences of {plan.seq_len:,} a step, {plan.num_microbatches}"
        f" microbatches of {plan.microbatch} a rank",
    )
    return [line.rstrip() for line in lines]


def _numbers(summary: Mapping[str, Any]) -> RenderableType:
    """Return the table of the step's figures."""
    percent = "{:.1%}".format
    exposed = summary["exposed_comm_s"]
    rows = [
        ("step time", f"{summary['step_time_s']:.4g} s"),
        ("tokens/s", f"{summary['tokens_per_s']:,.0f}"),
        ("tokens/s a device", f"{summary['tokens_per_s_per_device']:,.1f}"),
        ("TFLOP/s a device (model, full attention)", f"{summary['tflops_per_device']:.1f}"),
        (
            "MFU (full / causal attention)",
            f"{percent(summary['mfu'])} / {percent(summary['mfu_causal'])}",
        ),
        ("HFU (with recompute)", percent(summary["hfu"])),
        ("pipeline bubble, share of the step", percent(summary["bubble_fraction"])),
        ("communication hidden under compute", percent(summary["overlap_fraction"])),
        (
            "exposed communication",
            ", ".join(f"{a} {s:.3g} s" for a, s in exposed.items()) or "none",
        ),
    ]
    if "num_params" in summary:
        counts = [summary[key] / GIGA for key in ("num_params", "num_active_params")]
        rows.insert(0, ("parameters (active), billions", f"{counts[0]:,.2f} ({counts[1]:,.2f})"))
    if "pair_exposed_fraction" in summary:
        worst = f"{summary['pair_exposed_fraction']:.2%}"
        rows.append(("exposed in overlapped pairs, rank that waits most", worst))
    if "balance_saves_s" in summary:
        saved, even = summary["balance_saves_s"], summary["balanced_step_time_s"]
        share = abs(saved) / summary["step_time_s"]
        verb = "save" if saved >= 0 else "cost, as it drops fewer tokens"
        told = f"{abs(saved):.4g} s ({share:.1%}): {even:.4g} s a step"
        rows.append((f"even routing would {verb}", told))
    return table(rows, ("figure", "value"))


def _ledger(mean: Mapping[str, float], step: float) -> RenderableType:
    """Return the mean ledger, one bar a cause, largest first."""
    causes = sorted(((cause, s) for cause, s in mean.items() if s), key=lambda item: -item[1])
    width = max((len(cause) for cause, _ in causes), default=0)
    longest = max((s for _, s in causes), default=1.0)
    lines: list[RenderableType] = [Text(f"where the {step:.4g} s go (mean over ranks)")]
    for cause, seconds in causes:
        bar = "█" * round(COLUMNS * seconds / longest)
        line = Text(f"  {cause:<{width}}  {seconds:9.4f} s {seconds / step:6.1%}  ")
        lines.append(line.append(bar, style=cause_hue(cause).colour))
    return Padding(Group(*lines), (1, 0, 0, 0), expand=False)


def _memory(summary: Mapping[str, Any]) -> RenderableType:
    """Return peak memory by stage against the capacity, with the parts that make it up."""
    capacity, stages = summary["capacity_bytes"], summary["memory"]
    parts = list(dict.fromkeys(name for stage in stages for name in stage["breakdown"]))
    fullest = sorted(range(len(stages)), key=lambda i: -float(stages[i]["driver_bytes"]))
    rows = []
    for index in sorted(fullest[:STAGES_SHOWN]):
        stage = stages[index]
        share = f"{stage['driver_bytes'] / capacity:.0%} {stage['verdict']}"
        sizes = (stage[key] / GiB for key in ("peak_bytes", "driver_bytes"))
        held = (stage["breakdown"].get(name, 0.0) / GiB for name in parts)
        rows.append((index, *sizes, share, *held))
    columns = ("stage", "live", "of the driver", "of capacity", *parts)
    title = f"memory: peak in GiB a device, which has {capacity / GiB:.1f}: {_verdict(summary)}"
    return Padding(table(rows, columns, title), (1, 0, 0, 0), expand=False)


def _verdict(summary: Mapping[str, Any]) -> str:
    """Say whether the step fits, and if not, what the fullest stage is full of."""
    verdicts = {stage["verdict"] for stage in summary["memory"]}
    if summary["fits"] and "borderline" in verdicts:
        return "borderline: the allocator's rounding and fragmentation decide"
    if summary["fits"]:
        return "it fits"
    stage = max(summary["memory"], key=lambda stage: float(stage["driver_bytes"]))
    held = stage["breakdown"]
    largest = sorted(held, key=lambda name: -float(held[name]))[:3]
    contents = ", ".join(f"{n} {held[n] / GiB:.1f} GiB" for n in largest)
    return f"IT DOES NOT FIT: {contents} (--fit tries what would)"


def _would_fit(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the single changes that were tried, and what each would need."""
    shown = [
        (row["change"], row["verdict"], row["driver_bytes"] / GiB, f"{row['step_time_s']:.4g} s")
        for row in rows
    ]
    columns = ("one change", "verdict", "GiB of the driver, fullest stage", "step time")
    title = (
        "what would make it fit" if any(row["fits"] for row in rows) else "no single change fits"
    )
    return Padding(table(shown, columns, title), (1, 0, 0, 0), expand=False)


def _what_if(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the step with each resource faster: largest gain first, and a bar of what is left of the step."""
    shown = []
    for row in sorted(rows, key=lambda row: float(row["free_s"])):
        twice, free = (
            f"{row[f'{key}_s']:.4g} s ({0.0 - row[f'{key}_gain']:+.1%})"
            for key in ("twice_as_fast", "free")
        )
        share = max(1.0 - row["free_gain"], 0.0)
        shown.append(
            (row["resource"].replace("_", " "), twice, free, "█" * round(24 * share), row["what"])
        )
    columns = ("if this were", "twice as fast", "free", "step if free", "what it is")
    title = f"what if: the step of {rows[0]['step_time_s']:.4g} s, replayed"
    return Padding(table(shown, columns, title), (1, 0, 0, 0), expand=False)


def _notes(summary: Mapping[str, Any]) -> RenderableType:
    """Return the assumptions and the size of the replay."""
    lines = [f"  - {text}" for text in summary["assumptions"]]
    replay = (
        f"{summary['num_rank_classes']:,} rank classes, {summary['num_spans']:,} spans,"
        f" {summary['num_events']:,} events in {summary['wall_s']:.2f} s"
    )
    head = ["assumptions:", *lines] if lines else []
    return Text("\n".join([*head, replay]))
