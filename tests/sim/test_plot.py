"""Figures: what they draw is what the timeline says."""

from io import BytesIO

import numpy as np
import pytest

from sim.engine import simulate
from sim.errors import InputError
from sim.ledger import ledgers, mean_ledger
from sim.memory import MemoryCurve
from sim.metrics import mfu
from sim.palette import cause_hue
from sim.plot import (
    gantt,
    ledger_bars,
    link_bars,
    link_use,
    machine_figure,
    memory_curve_figure,
    memory_peaks_figure,
    svg,
    waterfall,
    waterfall_steps,
)  # fmt: skip
from sim.plot.ledger import cause_order
from sim.plot.memory import _thinned
from sim.plot.rows import shown_classes
from tests.sim.hand_made import kernel, program, star
from tests.sim.shown import pipeline


@pytest.fixture(scope="module")
def timeline():
    return pipeline()


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def boxes(figure):
    """(left, right) of every bar, sorted."""
    paths = figure.axes[0].collections[0].get_paths()
    return sorted((p.vertices[:, 0].min(), p.vertices[:, 0].max()) for p in paths)


def png(figure):
    file = BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def test_the_gantt_chart_has_a_bar_where_the_timeline_has_a_span(timeline) -> None:
    figure = gantt(timeline, detail="kernels", rank_classes=[0])
    spans = sorted((s.start, s.end) for s in timeline.spans(0))
    assert np.allclose(boxes(figure), spans)


def test_the_legend_names_each_colour_once(timeline) -> None:
    names = legend(gantt(timeline))
    assert len(names) == len(set(names))
    assert names[:4] == ["forward", "backward", "recompute", "optimizer"]
    assert {"pp transfer forward", "pp transfer backward", "dp all-reduce", "idle"} <= set(names)


def test_microbatches_are_numbered(timeline) -> None:
    texts = [t.get_text() for t in gantt(timeline, detail="actions").axes[0].texts]
    assert texts.count("0") == texts.count("1") == 4


def test_a_window_zooms(timeline) -> None:
    axes = gantt(timeline, window=(2.0, 8.0)).axes[0]
    assert axes.get_xlim() == (2.0, 8.0)
    assert "2 to 8 s" in axes.get_title(loc="left")


def test_an_empty_window_is_refused(timeline) -> None:
    with pytest.raises(InputError, match=r"window 3\.0:3\.0 is empty"):
        gantt(timeline, window=(3.0, 3.0))


def test_few_rank_classes_have_a_lane_for_every_stream(timeline) -> None:
    figure = gantt(timeline, rank_classes=[0], detail="actions")
    labels = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert labels == ["compute", "blocking", "recv", "send"]


def test_many_rank_classes_are_thinned_to_one_a_place(timeline) -> None:
    assert shown_classes(timeline) == [0, 1]
    assert shown_classes(timeline, most=1) == [0]


def test_rank_classes_nobody_could_tell_apart_are_drawn_once() -> None:
    work = {"compute": [kernel("a", 2), kernel("b", 3)]}
    slow = {"compute": [kernel("a", 2.5), kernel("b", 3)]}
    three = simulate(program(work, work, slow, places=[0, 0, 0]), star(3))
    assert three.num_classes == 3
    shown = shown_classes(three)
    assert [int(three.folding.representative[c]) for c in shown] == [0, 2]
    labels = [t.get_text() for t in gantt(three).axes[0].get_yticklabels()]
    assert labels == ["rank 0", "rank 2"]


def test_figures_are_the_same_every_time(timeline) -> None:
    assert png(gantt(timeline)) == png(gantt(timeline))


def test_a_bar_of_the_ledger_is_as_long_as_the_step(timeline) -> None:
    axes = ledger_bars(ledgers(timeline)).axes[0]
    for row in range(2):
        widths = [
            p.get_width() for p in axes.patches if round(p.get_y() + p.get_height() / 2) == row
        ]
        assert sum(widths) == pytest.approx(timeline.step_time)


def test_causes_stand_in_one_order() -> None:
    causes = [
        "launch",
        "bubble.drain",
        "exposed.tp",
        "compute",
        "bubble.warmup",
        "wait.dp",
        "recompute",
    ]
    assert cause_order(causes) == [
        "compute", "recompute", "exposed.tp", "wait.dp", "bubble.warmup", "bubble.drain", "launch",
    ]  # fmt: skip


def test_short_causes_are_put_together() -> None:
    figure = ledger_bars({"mean": {"compute": 1.0, "launch": 1e-6, "exposed.dp": 1e-6}})
    assert legend(figure) == ["useful compute", "smaller causes"]


def test_the_waterfall_ends_at_the_mfu(timeline) -> None:
    mean = mean_ledger(timeline, ledgers(timeline))
    steps = waterfall_steps(timeline, mean)
    assert 1.0 + sum(step.share for step in steps) == pytest.approx(mfu(timeline), abs=1e-12)
    shares = {step.label: step.share for step in steps}
    for cause in set(mean) - {"compute"}:
        assert shares[cause_hue(cause).label] == pytest.approx(-mean[cause] / timeline.step_time)
    texts = [t.get_text() for t in waterfall(steps).axes[0].texts]
    assert texts[-1] == f"{100 * mfu(timeline):.1f} % MFU (full)"


def test_the_memory_curve_is_stacked_to_its_total(timeline) -> None:
    figure = memory_curve_figure(timeline, 0)
    assert "peak" in figure.axes[0].get_title(loc="left")
    labels = [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
    assert labels == ["activations", "parameters"]


def test_peaks_stand_on_each_other() -> None:
    axes = memory_peaks_figure(
        {"0": {"parameters": 2.0**30, "activations": 2.0**31}}, 2.0**32
    ).axes[0]
    assert max(p.get_y() + p.get_height() for p in axes.patches) == pytest.approx(3.0)


def test_links_carry_what_was_sent(timeline) -> None:
    uses = {(use.src, use.dst): use for use in link_use(timeline)}
    up = uses["device", "switch"]
    sent = 2 * (2 * 1.0 + 1.0)  # two messages of a byte each way, and a byte each of the all-reduce
    assert up.number == 2
    assert up.mean * up.number * timeline.step_time * up.bandwidth == pytest.approx(sent)
    assert link_bars(list(uses.values())).axes


def test_an_svg_asks_nobody_for_anything(timeline) -> None:
    text = svg(gantt(timeline), "salt")
    assert text.startswith("<svg")
    assert "http" not in text
    assert text == svg(gantt(timeline), "salt")


def test_a_long_memory_curve_keeps_its_peak_and_its_end() -> None:
    rng = np.random.default_rng(7)
    held = rng.integers(1, 1000, (50_000, 2)).astype(float)
    curve = MemoryCurve(np.linspace(0, 10, 50_000), ("a", "b"), held)
    few = _thinned(curve, 10.0)
    assert len(few.time) <= 2002
    assert few.total.max() == curve.total.max()
    assert few.time[-1] == curve.time[-1]
    assert (few.held[-1] == curve.held[-1]).all()


def test_the_machine_is_drawn_in_tiers(timeline) -> None:
    texts = [t.get_text() for t in machine_figure(timeline, link_use(timeline)).axes[0].texts]
    assert texts[-2:] == ["2 x unit", "1 x switch"]
    assert "2 x 0 GB/s (link): 16%" in texts[0]
