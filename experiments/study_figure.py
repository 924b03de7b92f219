"""Figures of studies: one look: the title says the finding, colours read without red or green, marks differ too."""

from collections.abc import Callable, Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES = ("#1f5fa8", "#e2571e", "#07594f", "#c2347f", "#b98a00", "#7d54b8", "#6f6f6f", "#8c4a1f")
"""Colours of lines and bars, in order of use."""
MARKS = "osD^vPX*"
WIDTH, HEIGHT = 9.0, 4.6
"""Inches; at 150 dots an inch a figure is as wide as a README column."""
GREY = "#8a8a8a"
TITLE_CHARACTERS = 84


def figure(
    title: str, panels: int = 1, *, height: float = HEIGHT, rows: int = 1, **options: Any
) -> tuple["Figure", list["Axes"]]:
    """Return a figure of ``panels`` charts in ``rows`` under a title that says the finding."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(WIDTH, height), layout="constrained")
    text = title if "\n" in title else "\n".join(wrap(title, TITLE_CHARACTERS))
    made.suptitle(text, x=0.01, ha="left", fontsize=12.5, fontweight="bold")
    grid = made.subplots(rows, panels // rows, squeeze=False, **options)
    charts = list(grid.ravel())
    for axes in charts:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(visible=True, color="#e3e3e3", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=9)
    return made, charts


def line(
    axes: "Axes", x: Sequence[float], y: Sequence[float], label: str, number: int, **style: Any
) -> None:
    """Draw series ``number``: its colour and its mark."""
    look = {"linewidth": 2.0, "markersize": 5.5, "marker": MARKS[number % len(MARKS)], **style}
    axes.plot(
        list(x), list(y), color=look.pop("color", SERIES[number % len(SERIES)]), label=label, **look
    )


def bars(
    axes: "Axes",
    names: Sequence[str],
    groups: Sequence[tuple[str, Sequence[float]]],
    *,
    text: str | Callable[[float], str] = "",
    first: int = 0,
) -> None:
    """Draw groups of bars side by side over ``names``; ``text`` is the format of the numbers above them."""
    width = 0.8 / len(groups)
    for i, (label, values) in enumerate(groups):
        at = [n + (i - (len(groups) - 1) / 2) * width for n in range(len(names))]
        drawn = axes.bar(
            at, list(values), width * 0.94, color=SERIES[(first + i) % len(SERIES)], label=label
        )
        if text:
            axes.bar_label(drawn, fmt=text, fontsize=8, padding=2)
    axes.set_xticks(range(len(names)), list(names))
    axes.grid(visible=False, axis="x")


def hatch(drawn: Any, fits: Iterable[bool]) -> None:
    """Hatch the bars of plans that do not fit."""
    for bar, fit in zip(drawn, fits, strict=True):
        if not fit:
            bar.set_hatch("///")
            bar.set_edgecolor("white")


def hollow(axes: "Axes", x: Sequence[float], y: Sequence[float], number: int) -> None:
    """Draw marks of series ``number`` with white faces over its own: plans that do not fit."""
    mark, colour = MARKS[number % len(MARKS)], SERIES[number % len(SERIES)]
    axes.plot(list(x), list(y), ls="", marker=mark, markersize=5.5, mfc="white", mec=colour)


def short(value: float) -> str:
    """Return a number in two digits or more: 0.47, 4.7, 47, 470.

    >>> short(0.468), short(4.68), short(46.8), short(1468.0)
    ('0.47', '4.7', '47', '1,468')
    """
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:,.{digits}f}"


def powers(axes: "Axes", values: Sequence[float], label: str, *, axis: str = "x") -> None:
    """Make an axis logarithmic with the plain numbers ``values`` for ticks."""
    one = axes.xaxis if axis == "x" else axes.yaxis
    (axes.set_xscale if axis == "x" else axes.set_yscale)("log", base=2)
    one.set_ticks(list(values), [f"{v:,g}" for v in values])
    one.set_minor_locator(_no_ticks())
    (axes.set_xlabel if axis == "x" else axes.set_ylabel)(label, fontsize=10)


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def legend(axes: "Axes", **options: Any) -> None:
    """Draw the legend, small and without a frame."""
    axes.legend(**{"fontsize": 9, "frameon": False, **options})
