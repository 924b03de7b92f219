"""SVG text of a figure, to stand inside a page."""

import re
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def svg(figure: "Figure", salt: str) -> str:
    """Return a figure as an ``<svg>`` element; ``salt`` keeps the names inside it apart from those of others."""
    import matplotlib as mpl

    file = StringIO()
    with mpl.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": salt, "font.family": "sans-serif"}
    ):
        figure.savefig(
            file,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    text = file.getvalue()
    body = text[text.index("<svg") :]
    body = re.sub(r'id="([a-z]+_\d+)"', rf'id="{salt}-\1"', body)
    return re.sub(r' xmlns(:xlink)?="[^"]*"', "", body)
