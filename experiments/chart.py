"""Chart: drawings that several studies share, on the axes of `experiments.study_figure`."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from experiments.study_figure import MARKS, SERIES
from experiments.study_figure import figure as plain_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE_CHARACTERS = 84


def figure(title: str, panels: int = 1, **options: Any) -> tuple["Figure", list["Axes"]]:
    """Return the figure of a study, its title broken into lines that fit."""
    return plain_figure("\n".join(wrap(title, TITLE_CHARACTERS)), panels, **options)


def label(axes: "Axes", x: str, y: str, title: str = "") -> None:
    """Write the names of both axes, and what one panel of several shows."""
    axes.set_xlabel(x, fontsize=10)
    axes.set_ylabel(y, fontsize=10)
    if title:
        axes.set_title(title, fontsize=10, loc="left")


def lines(axes: "Axes", frame: "pd.DataFrame", x: str, y: str, by: str, **options: Any) -> None:
    """Draw ``y`` over ``x``, one line and mark for each value of ``by``, in the order of the table."""
    for index, (name, part) in enumerate(frame.groupby(by, sort=False)):
        look: dict[str, Any] = {
            "color": SERIES[index % 8],
            "marker": MARKS[index % 8],
            "markersize": 5,
            "linewidth": 1.8,
        }
        axes.plot(part[x], part[y], label=str(name), **look | options)


def stacked(
    axes: "Axes",
    names: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    colours: Mapping[str, str],
    *,
    flat: bool = False,
) -> None:
    """Draw one bar for each name, stacked from ``parts`` (``flat``: lying, the first on top)."""
    start = [0.0] * len(names)
    for part, values in parts.items():
        draw = axes.barh if flat else axes.bar
        base: dict[str, Any] = {"left": start} if flat else {"bottom": start}
        draw(list(names), list(values), 0.7, color=colours[part], label=part, **base)
        start = [a + b for a, b in zip(start, values, strict=True)]
    axes.grid(visible=False, axis="y" if flat else "x")
    if flat:
        axes.invert_yaxis()
