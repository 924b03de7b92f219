"""The page: cards, timeline, ledger, waterfall, memory, links and assumptions, filled into ``page.html``."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from sim.errors import InputError
from sim.ledger import ledgers, mean_ledger, stage_ledgers
from sim.memory import memory_peak
from sim.palette import HOST_HUE, IDLE
from sim.plot import (
    ledger_bars,
    link_bars,
    link_use,
    machine_figure,
    memory_curve_figure,
    memory_peaks_figure,
    svg,
    waterfall,
    waterfall_steps,
)
from sim.plot.rows import shown_classes
from sim.report.cards import cards, comparison
from sim.report.packing import Packing
from sim.timeline import Timeline
from sim.units import GB

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
MOST_SPANS = 600_000
"""A page holds about so many spans; of runs with more, fewer rank classes are shown."""
ROWS = 64
"""Rank classes of a run that are shown at most."""


@dataclass(frozen=True, kw_only=True)
class ReportRun:
    """One run of a report.

    ``summary``: its numbers, keys as ``simulate --json`` gives them; ``facts``: lines that say what ran (model,
    cluster, plan); ``parts``: ledger of each rank class, if known already; ``more``: further figures, each with its
    heading and caption.
    """

    name: str
    timeline: Timeline
    summary: Mapping[str, Any]
    facts: Sequence[str] = ()
    parts: list[dict[str, float]] | None = field(default=None)
    more: Sequence[tuple[str, "Figure", str]] = ()

    @cached_property
    def ledgers(self) -> list[dict[str, float]]:
        """Ledger of each rank class."""
        return self.parts if self.parts is not None else ledgers(self.timeline)

    @cached_property
    def mean(self) -> dict[str, float]:
        """Mean ledger."""
        return mean_ledger(self.timeline, self.ledgers)


def write_report(
    runs: ReportRun | Sequence[ReportRun], path: str | Path, *, title: str = ""
) -> None:
    """Write one self-contained HTML page about a run, or about several on one clock. Raises `InputError` for none."""
    several = [runs] if isinstance(runs, ReportRun) else list(runs)
    if not several:
        raise InputError("a report needs at least one run")
    several = _apart(several)
    packing, shown = Packing(), []
    for run in several:
        order = _shown(run.timeline, MOST_SPANS // len(several))
        packing.add(run.name, run.timeline, order)
        if len(order) < run.timeline.num_classes:
            number = f"{len(order)} of {run.timeline.num_classes:,} rank classes"
            shown.append(f"{run.name}: {number} are shown.")
    data = packing.data() | {
        "end": max(run.timeline.step_time for run in several),
        "runs": len(several),
        "microbatches": 1 + max((action.microbatch for action in packing.action_table), default=0),
    }
    name = title or " and ".join(run.name for run in several)
    text = Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(name),
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        script=(HERE / "viewer.js").read_text(encoding="utf-8"),
        intro="\n".join(
            f'<p class="note">{escape(line)}</p>'
            for run in several
            for line in _intro(run, several)
        ),
        numbers=cards(several[0]) if len(several) == 1 else comparison(several),
        legend=_legend(packing.op_table),
        shown=escape(" ".join(shown)),
        charts="\n".join(_charts(several)),
        assumptions="\n".join(_assumptions(several)),
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    )
    Path(path).write_text(text, encoding="utf-8")


def _apart(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """Give runs of one name numbers."""
    names = [run.name for run in runs]
    return [
        replace(run, name=f"{run.name} ({names[: i + 1].count(run.name)})")
        if names.count(run.name) > 1
        else run
        for i, run in enumerate(runs)
    ]


def _shown(timeline: Timeline, most: int) -> list[int]:
    """Return rank classes to show: at most ``most`` spans in all, if one class has no more."""
    each = max(timeline.num_spans, 1) / max(timeline.num_classes, 1)
    return shown_classes(timeline, max(min(ROWS, int(most / each)), 1))


def _intro(run: ReportRun, runs: Sequence[ReportRun]) -> list[str]:
    lead = f"{run.name}: " if len(runs) > 1 else ""
    return [lead + line for line in run.facts]


def _assumptions(runs: Sequence[ReportRun]) -> Iterator[str]:
    found = dict.fromkeys(text for run in runs for text in run.summary.get("assumptions", ()))
    for text in found or ("none",):
        yield f"<li>{escape(str(text))}</li>"


def _legend(table: Sequence[Mapping[str, Any]]) -> str:
    """Name the colours in use as the Gantt chart does: phases by kernels, transfers by axis and what they do."""
    named: dict[str, str] = {}
    for op in table:
        if "label" in op:
            named.setdefault(op["label"], op["colour"])
    named[HOST_HUE.label + " launch (idle)"] = HOST_HUE.colour
    named["idle (its foot has the colour of the cause)"] = IDLE.colour
    return "".join(
        f'<span><i style="background:{c}"></i>{escape(label)}</span>' for label, c in named.items()
    )


def _charts(runs: Sequence[ReportRun]) -> Iterator[str]:
    yield "<h2>Where the time goes</h2>"
    yield _figure(
        _ledger_figure(runs), "ledger", "Every rank's step, cut into causes that add up to it."
    )
    yield "<h2>From peak to MFU</h2>"
    for i, run in enumerate(runs):
        steps = waterfall_steps(run.timeline, run.mean)
        yield _figure(
            waterfall(steps, title=f"{run.name}: from peak to MFU"), f"fall{i}", _worst(steps)
        )
    yield "<h2>Memory</h2>"
    for i, run in enumerate(runs):
        yield from _memory(run, f"memory{i}")
    yield "<h2>Machine and links</h2>"
    for i, run in enumerate(runs):
        uses = link_use(run.timeline)
        if uses:
            cluster = run.timeline.cluster
            yield _figure(
                machine_figure(run.timeline, uses),
                f"machine{i}",
                "Links by what they join; darker is busier.",
            )
            title = f"{cluster.name}: share of each link's capacity used over the step"
            busiest = max(uses, key=lambda use: use.largest)
            caption = f"Busiest: {busiest.busiest}, {busiest.largest:.0%} of {busiest.bandwidth / GB:,.0f} GB/s."
            yield _figure(link_bars(uses, title=title), f"links{i}", caption)
    for i, run in enumerate(runs):
        for j, (heading, figure, caption) in enumerate(run.more):
            yield f"<h2>{escape(heading)}</h2>"
            yield _figure(figure, f"more{i}x{j}", caption)


def _worst(steps: Sequence[Any]) -> str:
    worst = min(steps, key=lambda step: step.share)
    return f"Largest loss: {worst.label}, {-100 * worst.share:.1f} points of peak."


def _ledger_figure(runs: Sequence[ReportRun]) -> "Figure":
    if len(runs) > 1:
        return ledger_bars({run.name: run.mean for run in runs}, title="mean over ranks")
    run = runs[0]
    stages = stage_ledgers(run.timeline, run.ledgers)
    rows = {"mean": run.mean, **{str(place): part for place, part in enumerate(stages)}}
    return ledger_bars(
        rows if len(stages) > 1 else {"mean": run.mean}, title="mean, and by pipeline place"
    )


def _memory(run: ReportRun, salt: str) -> Iterator[str]:
    """Peaks of all places, and the curve of the fullest rank class."""
    timeline = run.timeline
    peaks = {c: memory_peak(timeline, c) for c in shown_classes(timeline, ROWS)}
    fullest = max(peaks, key=lambda c: peaks[c].nbytes)
    if not peaks[fullest].nbytes:
        return
    place = timeline.place(fullest)
    yield _figure(
        memory_curve_figure(timeline, fullest),
        salt,
        f"{run.name}: the fullest rank, at pipeline place {place}.",
    )
    fullest_of: dict[int, int] = {}
    for c, peak in peaks.items():
        at = timeline.place(c)
        if at not in fullest_of or peak.nbytes > peaks[fullest_of[at]].nbytes:
            fullest_of[at] = c
    if len(fullest_of) > 1:
        capacity = min(device.memory_bytes for device in timeline.cluster.device_kinds)
        parts = {str(at): peaks[c].breakdown for at, c in sorted(fullest_of.items())}
        yield _figure(
            memory_peaks_figure(parts, capacity), salt + "p", "Live bytes at each place's peak."
        )


def _figure(figure: "Figure", salt: str, caption: str) -> str:
    return f"<figure>{svg(figure, salt)}<figcaption>{escape(caption)}</figcaption></figure>"
