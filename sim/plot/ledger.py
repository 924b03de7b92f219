"""Where the step goes: ledgers as stacked bars, and the losses between a device's peak and what the step achieves."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sim.kernels.shapes import Attention, Gemm, GroupedGemm
from sim.ledger import Ledger, ledgers, mean_ledger
from sim.metrics import mean_peak, mfu
from sim.palette import CAUSES, OTHER_AXIS, PHASES, cause_hue, ink, mix
from sim.program import Compute
from sim.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150
GROUPS = (
    "compute",
    "recompute",
    "optimizer",
    "overlap_slowdown",
    "exposed",
    "wait",
    "bubble",
    "launch",
)
"""Order of causes in a bar, by the first part of their names."""
NAMED = 0.03
"""Parts of at least this share of the longest bar carry their percentage."""


LEAST = 1e-9
"""Shares of the step below this are rounding."""
SMALL = 0.0005
"""Shares of the step below this are drawn together."""


class Loss(NamedTuple):
    """One step of the waterfall: what it is, its share of the step (negative: a loss), its colour."""

    label: str
    share: float
    colour: str


def cause_order(causes: Sequence[str]) -> list[str]:
    """Sort causes as bars show them: work first, then exposed communication, waits, bubbles, launch."""
    names = list(CAUSES)

    def key(cause: str) -> tuple[int, int, str]:
        group = cause.partition(".")[0]
        place = GROUPS.index(group) if group in GROUPS else len(GROUPS)
        return place, names.index(cause) if cause in names else len(names), cause

    return sorted(causes, key=key)


def ledger_bars(
    parts: Mapping[str, Ledger] | Sequence[Ledger], *, title: str = "where the step goes"
) -> "Figure":
    """Draw ledgers (s by cause) as stacked bars, one a row; a list is named by its places."""
    from matplotlib.figure import Figure

    named = dict(parts) if isinstance(parts, Mapping) else {str(i): p for i, p in enumerate(parts)}
    longest = max((sum(part.values()) for part in named.values()), default=1.0) or 1.0
    named = {name: _without_small(part, SMALL * longest) for name, part in named.items()}
    causes = cause_order(list(dict.fromkeys(c for part in named.values() for c in part)))
    height = max(0.27 * len(named), 0.5) + 1.05
    figure = Figure(figsize=(10.0, height), dpi=DPI, facecolor="white")
    axes = figure.add_axes((0.09, 0.78 / height, 0.89, 1.0 - 1.1 / height))
    left = [0.0] * len(named)
    for cause in causes:
        hue = cause_hue(cause)
        values = [part.get(cause, 0.0) for part in named.values()]
        axes.barh(
            range(len(named)), values, left=left, height=0.78, color=hue.colour, label=hue.label
        )
        for row, value in enumerate(values):
            if value > NAMED * longest:
                total = sum(list(named.values())[row].values())
                axes.text(
                    left[row] + value / 2, row, f"{value / total:.0%}", ha="center", va="center", fontsize=6.5,
                    color=ink(hue.colour),
                )  # fmt: skip
            left[row] += value
    axes.set_yticks(range(len(named)), list(named))
    axes.set_ylim(len(named) - 0.5, -0.5)
    axes.set_xlim(0, longest)
    axes.set_xlabel("s", fontsize=8, labelpad=1)
    axes.tick_params(labelsize=7.5, length=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(title, fontsize=9, loc="left")
    figure.legend(loc="lower center", ncols=min(len(causes), 6) or 1, fontsize=7, frameon=False,
                  handlelength=1.1, columnspacing=1.1, bbox_to_anchor=(0.52, -0.005))  # fmt: skip
    return figure


def _without_small(part: Ledger, least: float) -> dict[str, float]:
    """Put causes shorter than ``least`` s together."""
    kept = {cause: seconds for cause, seconds in part.items() if seconds >= least}
    rest = sum(part.values()) - sum(kept.values())
    return {**kept, "smaller causes": rest} if rest > 0 else kept


def waterfall_steps(timeline: Timeline, mean: Ledger | None = None) -> list[Loss]:
    """Return the losses from peak (1.0) to MFU (full); 1 plus all shares is the MFU.

    A cause of the mean ledger other than compute loses its share of the step. Of compute, kernels that run no matrix
    product lose all their time, the others what they take beyond their FLOPs at peak. FLOPs the convention counts but
    no kernel runs (the masked half of causal attention) come back as a gain.
    """
    ledger = mean if mean is not None else mean_ledger(timeline, ledgers(timeline))
    step, peak = timeline.step_time, mean_peak(timeline)
    seconds, at_peak = _kernel_totals(timeline, peak)
    known = {c for c in ledger if c != "compute"}
    losses = [
        Loss(cause_hue(c).label, -ledger[c] / step, cause_hue(c).colour)
        for c in reversed(cause_order(list(known)))
    ]
    blue = PHASES["F"].colour
    beside = ledger.get("compute", 0.0) - sum(seconds.values())
    if abs(beside) > LEAST * step:
        losses.append(Loss("kernels of another stream", -beside / step, mix(blue, 0.7)))
    for white, (family, label) in enumerate(FAMILIES.items()):
        lost = seconds[family] - at_peak[family]
        losses.append(Loss(label, -lost / step, mix(blue, 0.5 - 0.25 * white)))
    counted = mfu(timeline) - sum(at_peak.values()) / step
    if abs(counted) > LEAST:
        losses.append(Loss("FLOPs counted, not run (causal mask)", counted, PHASES["B"].colour))
    return [loss for loss in losses if abs(loss.share) > LEAST]


FAMILIES = {
    "other": "elementwise kernels",
    "attention": "attention below peak",
    "gemm": "matrix products below peak",
}


def _kernel_totals(timeline: Timeline, peak: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean seconds a rank by kernel family, and seconds of their FLOPs at peak (recompute, optimizer apart)."""
    seconds, at_peak = dict.fromkeys(FAMILIES, 0.0), dict.fromkeys(FAMILIES, 0.0)
    ranks = float(timeline.folding.size.sum())
    for rank_class, size in enumerate(timeline.folding.size.tolist()):
        kind = timeline.device_kind(rank_class)
        for stream in timeline.streams_of[rank_class]:
            if not stream.computes:
                continue
            for op, _, _, start, end in timeline.spans(rank_class, stream.name):
                if not isinstance(op, Compute) or op.phase in ("R", "O"):
                    continue
                family = _family(op)
                alone = timeline.kernel_seconds[kind, id(op)]
                seconds[family] += min(end - start, alone) * size / ranks
                if family != "other":
                    at_peak[family] += op.kernel.flops / peak * size / ranks
    return seconds, at_peak


def _family(op: Compute) -> str:
    match op.kernel:
        case Gemm() | GroupedGemm():
            return "gemm"
        case Attention():
            return "attention"
        case _:
            return "other"


def waterfall(losses: Sequence[Loss], *, title: str = "from peak to MFU") -> "Figure":
    """Draw `waterfall_steps`: peak on top, each loss below, what is left at the foot."""
    from matplotlib.figure import Figure

    small = [loss for loss in losses if abs(loss.share) < SMALL]
    losses = [loss for loss in losses if abs(loss.share) >= SMALL]
    if small:
        rest = Loss(
            f"{len(small)} smaller causes", sum(loss.share for loss in small), OTHER_AXIS.colour
        )
        losses = [*losses, rest]
    rows = len(losses) + 2
    figure = Figure(figsize=(10.0, 0.26 * rows + 0.75), dpi=DPI, facecolor="white")
    axes = figure.add_axes(
        (0.29, 0.36 / (0.26 * rows + 0.75), 0.68, 1 - 0.72 / (0.26 * rows + 0.75))
    )
    level = 1.0
    axes.barh(0, 1.0, color="#555555", height=0.72)
    axes.text(1.005, 0, "100 %", va="center", fontsize=7.5)
    for row, loss in enumerate(losses, 1):
        after = level + loss.share
        axes.barh(row, abs(loss.share), left=min(level, after), color=loss.colour, height=0.72)
        axes.plot([level, level], [row - 0.64, row + 0.36], color="#999999", lw=0.6)
        axes.text(
            max(level, after) + 0.005,
            row,
            f"{100 * loss.share:+.1f}".replace("-", "−"),
            va="center",
            fontsize=7.5,
        )
        level = after
    axes.barh(rows - 1, level, color=PHASES["F"].colour, height=0.72)
    axes.text(
        level + 0.005,
        rows - 1,
        f"{100 * level:.1f} % MFU (full)",
        va="center",
        fontsize=7.5,
        weight="bold",
    )
    axes.set_yticks(range(rows), ["dense peak", *(loss.label for loss in losses), "achieved"])
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_xlim(0, 1.08)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 % of peak"])
    axes.tick_params(labelsize=7.5, length=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(title, fontsize=9, loc="left")
    return figure
