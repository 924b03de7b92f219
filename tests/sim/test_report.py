"""The report: one file that asks the network for nothing, and a timeline a browser can search, hover and zoom."""

import base64
import gzip
import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sim.errors import InputError
from sim.report import ReportRun, write_report
from sim.report.cards import cards
from sim.report.packing import Packing
from tests.sim.shown import pipeline

SUMMARY = {
    "step_time_s": 19.0, "mfu": 0.25, "exposed_comm_s": {"dp": 1.9}, "peak_memory_bytes": 2.0**29,
    "memory": [{"driver_bytes": 2.0**30, "verdict": "fits"}], "capacity_bytes": 2.0**31, "fits": True,
    "assumptions": ["layers <split> evenly"],
}  # fmt: skip
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def run(name="small"):
    return ReportRun(name=name, timeline=pipeline(), summary=SUMMARY, facts=("two ranks",))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "r.html"
    write_report(run(), path)
    return path


def unpacked(data):
    """The columns as the viewer reads them."""
    blob, n = gzip.decompress(base64.b64decode(data["columns"])), data["length"]
    assert len(blob) == 20 * n
    return {
        "start": np.frombuffer(blob, "<f8", n),
        "duration": np.frombuffer(blob, "<f4", n, 8 * n),
        "op": np.frombuffer(blob, "<u4", n, 12 * n),
        "action": np.frombuffer(blob, "<u4", n, 16 * n),
    }


def test_columns_hold_every_span() -> None:
    timeline, packing = pipeline(), Packing()
    packing.add("run", timeline, [0, 1])
    data = packing.data()
    columns = unpacked(data)
    for row in data["rows"]:
        rank_class = timeline.class_of_rank(row["rank"])
        spans = list(timeline.spans(rank_class, row["name"]))
        part = slice(*row["spans"])
        assert columns["start"][part].tolist() == [s.start for s in spans]
        assert columns["duration"][part].tolist() == [s.end - s.start for s in spans]
        assert [data["ops"][i]["name"] for i in columns["op"][part]] == [s.op.name for s in spans]


def test_bars_and_idle_intervals_of_a_row_fill_the_step() -> None:
    timeline, packing = pipeline(), Packing()
    packing.add("run", timeline, [0, 1])
    data = packing.data()
    duration = unpacked(data)["duration"]
    for row in data["rows"]:
        parts = [slice(*row["spans"]), slice(*row["idle"])]
        assert sum(duration[part].sum() for part in parts) == timeline.step_time


def test_idle_intervals_name_their_cause() -> None:
    timeline, packing = pipeline(), Packing()
    packing.add("run", timeline, [0])
    data = packing.data()
    columns = unpacked(data)
    row = next(row for row in data["rows"] if row["computes"])
    causes = [data["ops"][columns["op"][i]]["facts"]["idle"] for i in range(*row["idle"])]
    assert causes == [
        "waits for recv.B on stream recv, which has not begun for 80% of it (its peer is late), "
        "which is in flight for 20% of it",
        "waits for recv.B on stream recv, which has not begun for 50% of it (its peer is late), "
        "which is in flight for 50% of it",
    ]


def test_an_idle_stream_of_transfers_says_what_it_waits_for() -> None:
    timeline, packing = pipeline(), Packing()
    packing.add("run", timeline, [0])
    data = packing.data()
    columns = unpacked(data)
    rows = {row["name"]: row for row in data["rows"]}
    causes = {
        name: [data["ops"][columns["op"][i]]["facts"]["idle"] for i in range(*rows[name]["idle"])]
        for name in ("send", "recv")
    }
    assert causes["send"][0] == (
        "nothing is posted: the next transfer waits for fore on stream compute, which runs for 100% of it"
    )
    assert causes["send"][-1] == causes["recv"][-1] == "nothing is posted any more"
    assert causes["recv"][0] == "waits until the other ranks of recv.B are there"


def test_the_legend_names_colours_as_the_gantt_chart_does(page) -> None:
    legend = re.search(r'<div class="legend">(.*?)</div>', page.read_text()).group(1)
    found = set(re.findall(r"</i>(.*?)</span>", legend))
    assert {"forward", "pp transfer forward", "pp transfer backward", "dp all-reduce"} <= found


def test_the_page_stands_alone(page) -> None:
    text = page.read_text()
    assert not re.search(r"https?:|src=|@import|url\((?!#)", text)
    assert "default-src 'none'" in text
    data = re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1)
    assert json.loads(data)["end"] == 19.0


def test_the_page_says_what_ran_and_what_was_assumed(page) -> None:
    text = page.read_text()
    for part in (
        "two ranks",
        "19 s",
        "25.0%",
        "10.0%",
        "1.0 of 2.0 GiB",
        "layers &lt;split&gt; evenly",
    ):
        assert part in text
    assert text.count("<svg") == 6


def test_a_plan_that_does_not_fit_stands_out() -> None:
    assert "does not fit" in cards(SimpleNamespace(name="x", summary=SUMMARY | {"fits": False}))
    assert "does not fit" not in cards(SimpleNamespace(name="x", summary=SUMMARY))


def test_the_memory_card_has_the_number_its_verdict_is_about() -> None:
    stages = [
        {"driver_bytes": 2.0**30, "verdict": "fits"},
        {"driver_bytes": 2.0**31 * 0.99, "verdict": "borderline"},
    ]
    text = cards(SimpleNamespace(name="x", summary=SUMMARY | {"memory": stages}))
    assert "<b>2.0 of 2.0 GiB</b><span>memory taken: borderline</span>" in text
    assert "<b>0.5 GiB</b><span>live memory</span>" in text


def test_several_runs_share_a_page(tmp_path) -> None:
    write_report([run("first"), run("second")], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "<title>first and second</title>" in text
    assert "<th>first</th><th>second</th>" in text
    assert len(json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))["rows"]) == 12


def test_runs_of_one_name_are_told_apart(tmp_path) -> None:
    write_report([run("one"), run("one")], tmp_path / "r.html")
    assert "<th>one (1)</th><th>one (2)</th>" in (tmp_path / "r.html").read_text()


def test_a_run_may_bring_further_figures(tmp_path) -> None:
    from matplotlib.figure import Figure

    more = replace(run(), more=[("What if", Figure(), "faster <links>")])
    write_report(more, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "<h2>What if</h2>" in text
    assert "faster &lt;links&gt;" in text


def test_no_run_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="at least one run"):
        write_report([], tmp_path / "r.html")


def test_the_same_run_gives_the_same_page(page, tmp_path) -> None:
    write_report(run(), tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip(
        "playwright.sync_api",
        reason="playwright is not installed: pip install 'windtunnel[browser]'",
    )
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, page):
    """The page in a browser; at the end, nothing was said on the console and nothing asked of the network."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    said, asked = [], []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(page.as_uri())
    tab.wait_for_function("window.viewer && window.viewer.stats.draws > 0")
    yield tab
    assert said == []
    assert asked == [page.as_uri()]
    tab.close()


def point(tab, time, row):
    """Screen position of a time on a row."""
    tab.locator("#timeline").scroll_into_view_if_needed()
    box = tab.locator("#timeline").bounding_box()
    x, y = tab.evaluate(
        f"[viewer.x({time}), viewer.data.rows[{row}].y + viewer.data.rows[{row}].h / 2]"
    )
    return box["x"] + x, box["y"] + y


def test_a_span_is_hovered(opened) -> None:
    opened.mouse.move(*point(opened, 16.0, 0))
    tip = opened.inner_text("#tip")
    assert tip.startswith("back\n")
    assert "15.00 s + 2.000 s" in tip
    assert "BW, stage 0, chunk 0, microbatch 1" in tip


def test_an_idle_interval_says_why(opened) -> None:
    opened.mouse.move(*point(opened, 6.0, 0))
    assert "cause waits for recv.B on stream recv" in opened.inner_text("#tip")


def test_an_idle_stream_of_transfers_is_hovered(opened) -> None:
    row = opened.evaluate("viewer.data.rows.findIndex((r) => r.name === 'send')")
    opened.mouse.move(*point(opened, 1.0, row))
    assert "nothing is posted: the next transfer waits for fore" in opened.inner_text("#tip")


@pytest.mark.parametrize("ranks", [2, 16, 64])
def test_all_rows_fit_a_laptops_screen_or_scroll_within(browser, page, ranks) -> None:
    tab = browser.new_page(viewport={"width": 1366, "height": 768})
    tab.goto(page.as_uri())
    tab.wait_for_function("window.viewer && window.viewer.stats.draws > 0")
    tab.evaluate(
        """(ranks) => { const own = viewer.data.rows.filter((r) => r.rank === 0); viewer.data.rows =
        Array.from({ length: ranks }, (_, rank) => own.map((r) => ({ ...r, rank }))).flat(); viewer.resize(); }""",
        ranks,
    )
    pane, canvas = (tab.locator(name).bounding_box()["height"] for name in ("#pane", "#timeline"))
    assert pane <= 0.8 * 768
    assert (canvas <= pane) == (ranks <= 16)
    tab.evaluate("document.getElementById('pane').scrollTop = 1e6")
    tab.wait_for_timeout(50)
    assert tab.evaluate("viewer.pane.scrollTop") == pytest.approx(max(canvas - pane, 0.0), abs=1)
    tab.close()


def test_an_op_is_found_and_shown(opened) -> None:
    opened.fill("#find", "adam")
    opened.press("#find", "Enter")
    opened.wait_for_timeout(100)
    assert opened.inner_text("#found") == "2 found"
    low, high = opened.evaluate("[viewer.low, viewer.high]")
    assert 0 <= low < 17.5 < high <= 19 or 0 <= low < 13.5 < high <= 19
    assert opened.evaluate("viewer.data.ops[viewer.arrays.op[viewer.pinned]].name") == "adam"


def test_the_timeline_zooms_and_pans(opened) -> None:
    x, y = point(opened, 10.0, 0)
    opened.click("#in")
    low, high = opened.evaluate("[viewer.low, viewer.high]")
    assert (low, high) == (4.75, 14.25)
    opened.mouse.move(x, y)
    opened.mouse.down()
    opened.mouse.move(x - 200, y, steps=4)
    opened.mouse.up()
    opened.wait_for_timeout(50)
    assert opened.evaluate("viewer.low") > low
    opened.mouse.dblclick(x, y)
    assert opened.evaluate("viewer.high - viewer.low") < high - low
    opened.click("#all")
    assert opened.evaluate("[viewer.low, viewer.high]") == [0, 19]


def test_keys_move_the_view(opened) -> None:
    opened.focus("#timeline")
    opened.keyboard.press("w")
    opened.keyboard.press("d")
    low, high = opened.evaluate("[viewer.low, viewer.high]")
    assert high - low == pytest.approx(0.6 * 19)
    assert low > 0.2 * 19


def test_a_hundred_thousand_bars_are_drawn_within_a_frame_or_two(browser, tmp_path) -> None:
    """The columns of the page are replaced by many; the draw must merge what is narrower than a pixel."""
    write_report(run(), tmp_path / "r.html")
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto((tmp_path / "r.html").as_uri())
    tab.wait_for_function("window.viewer && window.viewer.stats.draws > 0")
    tab.evaluate(
        """() => {
            const n = 100000, v = window.viewer, a = v.arrays;
            v.arrays = {start: Float64Array.from({length: n}, (_, i) => 19 * i / n),
                duration: new Float32Array(n).fill(19 / n * 0.9), op: new Uint32Array(n).fill(a.op[0]),
                action: new Uint32Array(n).fill(a.action[0])};
            v.data.length = n;
            v.busy = v.prefixes();
            for (const row of v.data.rows) { row.spans = [0, n]; delete row.far; delete row.idle; }
        }"""
    )
    slowest = max(
        tab.evaluate(
            f"(() => {{ viewer.low = {low}; viewer.high = {high}; viewer.draw(); return viewer.stats.ms; }})()"
        )
        for low, high in ((0, 19), (3, 11), (5, 5.5), (9, 9.001))
    )
    assert slowest < 200
    assert tab.evaluate("viewer.stats.bars") < 1300 * 6
    tab.close()
