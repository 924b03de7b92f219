"""Case: a published training run beside its replay, and replays with one knob turned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from experiments.chart import figure, label
from experiments.runfile import RunConfig
from experiments.study_figure import GREY, SERIES, hatch
from experiments.trial import Row, long_numbers, preset_run
from workloads.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

KEYS = ("tflops_per_device", "mfu", "mfu_causal", "bubble_fraction", "exposed_fraction",
        "peak_memory_gib", "fits")  # fmt: skip
AS_RUN = "as run"
"""Name of the variant with the published plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run, the published step time (s; 0: not published) and where that is from, and knobs to turn.

    ``knobs``: name of a variant -> fields of the plan that differ. ``assumed``: what the source does not state.
    """

    name: str
    config: RunConfig
    published_s: float = 0.0
    source: str = ""
    assumed: str = ""
    knobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def preset_case(name: str, preset: str, **facts: Any) -> Case:
    """Return the case of a run preset as its file has it, so that ``simulate`` gives the same numbers."""
    config = preset_run(preset)
    return Case(name=name, config=config, **{"source": config.source} | facts)


def case_rows(cases: Iterable[Case], *, quick: bool = False) -> list[Row]:
    """Replay each case as run and with each knob turned (``quick``: as run only); a row each."""
    rows = []
    for case in cases:
        variants: dict[str, Mapping[str, Any]] = {AS_RUN: {}, **({} if quick else case.knobs)}
        for variant, changes in variants.items():
            changed: dict[str, Any] = dict(changes)
            plan = replace(case.config.plan, **changed)
            found = long_numbers(replace(case.config, plan=plan))
            exposed = found["exposed"]
            most = max(exposed, key=lambda axis: exposed[axis], default="")
            row: Row = {"case": case.name, "variant": variant, "devices": plan.num_devices}
            row |= {"plan": plan_text(plan), "step_time_s": found["step_time_s"]}
            row |= {"published_s": case.published_s or float("nan")}
            row |= {key: found[key] for key in KEYS}
            rows.append(
                row | {"most_exposed": most, "source": case.source, "assumed": case.assumed}
            )
    return rows


def plan_text(plan: Plan) -> str:
    """Return the degrees of a plan that are not 1, its sharding and its schedule."""
    parts = [
        f"{d.upper()}{getattr(plan, d)}"
        for d in ("tp", "cp", "pp", "ep", "etp", "dp")
        if getattr(plan, d) > 1
    ]
    parts += [f"v{plan.chunks}"] if plan.chunks > 1 else []
    return " ".join([*parts, f"ZeRO-{plan.zero}", *([plan.schedule] if plan.pp > 1 else [])])


def case_figure(frame: "pd.DataFrame", title: str, *, height: float = 4.4) -> "Figure":
    """Draw step time against the published one, and what each knob changes."""
    chart, (left, right) = figure(title, 2, height=height)
    run = frame[frame["variant"] == AS_RUN]
    at = range(len(run))
    replayed = left.barh([i - 0.2 for i in at], run["step_time_s"], 0.38, color=SERIES[0])
    hatch(replayed, run["fits"])
    left.barh(
        [i + 0.2 for i in at],
        run["published_s"].fillna(0.0),
        0.38,
        color=SERIES[1],
    )
    for i, row in enumerate(run.itertuples()):
        seconds, published = float(str(row.step_time_s)), float(str(row.published_s))
        known = published == published
        text = f"{seconds / published - 1:+.0%}" if known else "not published"
        left.text(
            max(seconds, published if known else 0.0), i, f" {text}", va="center", fontsize=8.5
        )
    left.set_yticks(list(at), [f"{r.case}\n{r.plan}" for r in run.itertuples()], fontsize=8)
    most = max(run["step_time_s"].max(), run["published_s"].fillna(0.0).max())
    left.set_xlim(0, 1.45 * most)
    label(left, "step time (s)", "")
    left.set_title(
        "replayed (blue; hatched: does not fit), published (orange)", fontsize=9, loc="right"
    )
    left.set_ylim(max(len(run) - 0.3, 1.4), min(-0.7, len(run) - 3.0))
    _knobs(right, frame)
    for axes in (left, right):
        axes.grid(visible=False, axis="y")
    return chart


def _knobs(axes: Any, frame: "pd.DataFrame") -> None:
    base = frame[frame["variant"] == AS_RUN].set_index("case")["step_time_s"]
    turned = frame[frame["variant"] != AS_RUN]
    change = [float(str(r.step_time_s)) / base[r.case] - 1 for r in turned.itertuples()]
    hatch(axes.barh(range(len(turned)), change, 0.7, color=SERIES[3]), turned["fits"])
    for place, value in enumerate(change):
        axes.text(max(value, 0.0), place, f" {value:+.0%}", va="center", fontsize=8.5)
    several = len(base) > 1
    names = [f"{r.case}: {r.variant}" if several else str(r.variant) for r in turned.itertuples()]
    axes.set_yticks(range(len(turned)), names, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, lw=0.8)
    low, high = min([0.0, *change]), max([0.01, *change])
    axes.set_xlim(low - 0.05 * (high - low), high + 0.3 * (high - low))
    axes.xaxis.set_major_formatter("{x:+.0%}")
    label(axes, "change of step time", "")
    axes.set_title("one knob turned (hatched: does not fit)", fontsize=9, loc="right")


def unfit(frame: "pd.DataFrame") -> str:
    """Return which plans as run do not fit, with their peaks; or that all do.

    A replay of such a plan gives the step it would take if memory sufficed.
    """
    runs = frame[(frame["variant"] == AS_RUN) & ~frame["fits"].astype(bool)]
    shown = ", ".join(
        f"{r.case} ({float(str(r.peak_memory_gib)):.0f} GiB)" for r in runs.itertuples()
    )
    return f"does not fit as replayed: {shown}" if shown else "every plan fits as run"
