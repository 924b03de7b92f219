"""Cards: the numbers of a run at the top of its page, each with its definition; side by side for several runs."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple, Protocol

from sim.units import GIGA, GiB

Summary = Mapping[str, Any]


class Named(Protocol):
    """A run with a name and numbers."""

    @property
    def name(self) -> str:
        """What the run is called."""

    @property
    def summary(self) -> Summary:
        """Its numbers, keys as ``simulate --json`` gives them."""


class Card(NamedTuple):
    """A number: what it is called, how it is written, what it means."""

    label: str
    text: Callable[[Summary], str]
    meaning: str


def _exposed(summary: Summary) -> str:
    seconds = sum(summary["exposed_comm_s"].values())
    return f"{seconds / summary['step_time_s']:.1%}"


def _memory(summary: Summary) -> str:
    """What the verdict is about."""
    taken = max(float(stage["driver_bytes"]) for stage in summary["memory"])
    return f"{taken / GiB:.1f} of {summary['capacity_bytes'] / GiB:.1f} GiB"


def _verdict(summary: Summary) -> str:
    """Return the verdict in words where it is no plain yes."""
    if not summary.get("fits", True):
        return "does not fit"
    found = {stage["verdict"] for stage in summary.get("memory", ())}
    return "borderline" if "borderline" in found else ""


MEMORY = "memory taken"
CARDS = (
    Card("step time", lambda s: f"{s['step_time_s']:.4g} s", "until the last stream of the last rank ends"),
    Card("MFU (full attention)", lambda s: f"{s['mfu']:.1%}",
         "model FLOPs over step time, devices and dense peak; the whole attention matrix counted, recompute not"),
    Card("MFU (causal)", lambda s: f"{s['mfu_causal']:.1%}", "as MFU, half the attention matrix counted"),
    Card("HFU", lambda s: f"{s['hfu']:.1%}", "as MFU, recomputed FLOPs counted"),
    Card("TFLOP/s a device", lambda s: f"{s['tflops_per_device']:.0f}", "model FLOPs, full attention"),
    Card("tokens/s", lambda s: f"{s['tokens_per_s']:,.0f}", "tokens of the global batch over the step time"),
    Card("tokens/s a device", lambda s: f"{s['tokens_per_s_per_device']:,.0f}", "tokens/s over devices"),
    Card("pipeline bubble", lambda s: f"{s['bubble_fraction']:.1%}", "idle for the pipeline, share of the step"),
    Card("exposed communication", _exposed, "communication nothing hides, share of the step, mean over ranks"),
    Card("communication hidden", lambda s: f"{s['overlap_fraction']:.0%}", "share of communication time under compute"),
    Card(MEMORY, _memory, "what the driver reports of the fullest rank, of the device's capacity: live bytes, what the"
         " allocator's rounding and blocks take, context and communicators"),
    Card("live memory", lambda s: f"{s['peak_memory_bytes'] / GiB:.1f} GiB", "live bytes of the fullest rank"),
    Card("even routing would save", lambda s: f"{s['balance_saves_s'] / s['step_time_s']:.1%}",
         "share of the step; the step replayed with as many tokens for every expert"),
    Card("exposed in pairs", lambda s: f"{s['pair_exposed_fraction']:.2%}",
         "share of forwards paired with backwards in which the rank that waits most only waits for transfers"),
    Card("parameters", lambda s: f"{s['num_params'] / GIGA:,.1f} B ({s['num_active_params'] / GIGA:,.1f} B active)",
         "weights, norms, biases and positions; active: those one token meets"),
    Card("devices", lambda s: f"{s['num_devices']:,}", "accelerators in the run"),
)  # fmt: skip
"""Shown in this order; one whose numbers a summary lacks is left out."""


def cards(run: Named) -> str:
    """Return the cards of a run; a plan that does not fit, or hardly, is said so."""
    found = []
    for card in CARDS:
        text = _text(card, run.summary)
        if text is not None:
            verdict = _verdict(run.summary) if card.label == MEMORY else ""
            bad = " bad" if verdict else ""
            label = card.label + (f": {verdict}" if verdict else "")
            inner = f"<b>{escape(text)}</b><span>{escape(label)}</span>"
            found.append(f'<div class="card{bad}" title="{escape(card.meaning)}">{inner}</div>')
    return f'<div class="cards">{"".join(found)}</div>'


def comparison(runs: Sequence[Named]) -> str:
    """Return a table of the cards of several runs, one column each."""
    head = "".join(f"<th>{escape(run.name)}</th>" for run in runs)
    rows = []
    for card in CARDS:
        texts = [_text(card, run.summary) for run in runs]
        if any(text is not None for text in texts):
            cells = "".join(f"<td>{escape(text or '')}</td>" for text in texts)
            rows.append(
                f'<tr title="{escape(card.meaning)}"><td>{escape(card.label)}</td>{cells}</tr>'
            )
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _text(card: Card, summary: Summary) -> str | None:
    try:
        return card.text(summary)
    except KeyError:
        return None
