"""A study: one question, one module with ``run``, ``check`` and ``plot``; this runs it and keeps its answer."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Study(Protocol):
    """What a module of ``experiments.studies`` has. Its docstring starts with the question."""

    def run(self, *, quick: bool = False) -> "pd.DataFrame":
        """Replay the cases, one row each; ``quick`` takes fewer."""

    def check(self, frame: "pd.DataFrame") -> str:
        """Assert the claim and return the finding, two lines at most."""

    def plot(self, frame: "pd.DataFrame") -> "Figure":
        """Draw the answer."""


def run_study(name: str, module: object, folder: Path, *, quick: bool = False) -> dict[str, Any]:
    """Run a study, write table.csv, figure.png and finding.txt into ``folder``, and say what it found."""
    import matplotlib as mpl

    mpl.use("Agg")
    study = cast("Study", module)
    start = time.process_time()
    frame = study.run(quick=quick)
    finding = study.check(frame)
    folder.mkdir(parents=True, exist_ok=True)
    frame.to_csv(folder / "table.csv", index=False, float_format="%.6g", lineterminator="\n")
    (folder / "finding.txt").write_text(finding + "\n", encoding="utf-8")
    study.plot(frame).savefig(folder / "figure.png", dpi=150, metadata={"Software": None})
    return {
        "name": name,
        "finding": finding,
        "folder": str(folder),
        "cpu_s": round(time.process_time() - start, 2),
    }
