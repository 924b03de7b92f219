"""A study: one question, a module with ``run``, ``check`` and ``plot``; this replays, runs it and keeps the answer."""

import csv
import time
from concurrent.futures import Executor, Future
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from experiments.runfile import ClusterSpec, RunConfig
from experiments.simulation import Result, build_cluster
from sim.engine import simulate
from workloads.lower import lower
from workloads.model import Model
from workloads.models import model as preset_model
from workloads.plan import Plan
from workloads.software import software

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RESULTS = Path("results")
"""Where whole tables are kept."""
CPU_SUFFIX = "_cpu_s"
"""Columns so named are measured on the machine at hand; nobody compares them."""
INDEX_HEAD = """# Studies

Each asks one question, replays it, checks its claim and draws the answer: `table.csv`, `figure.png`, `finding.txt`.
`./run study all` makes them all again.

| question | finding | command |
| --- | --- | --- |
"""


class Study(Protocol):
    """What a module of ``experiments.studies`` has. Its docstring starts with the question."""

    def run(self, *, quick: bool = False) -> "pd.DataFrame":
        """Replay the cases, one row each; ``quick`` takes fewer, and its rows are rows of the whole table."""

    def check(self, frame: "pd.DataFrame") -> str:
        """Assert the claim; return two lines: the finding, and what it was held against."""

    def plot(self, frame: "pd.DataFrame") -> "Figure":
        """Draw the answer."""


def replay(
    model: Model | str,
    preset: str,
    num_devices: int,
    plan: Plan,
    *,
    merged: bool = True,
    launch: float | None = None,
    **parameters: Any,
) -> Result:
    """Replay one step of a model on a cluster preset with ``parameters`` of its family.

    ``merged`` plays runs of ops as one step each: the same numbers from fewer events. ``launch``: host seconds a
    kernel (default: those of the plan's software).
    """
    chosen = preset_model(model) if isinstance(model, str) else model
    spec = ClusterSpec(preset=preset, num_devices=num_devices, parameters=parameters)
    config = RunConfig(name=chosen.name, model=chosen, cluster=spec, plan=plan)
    gap = software(plan.software).launch if launch is None else launch
    timeline = simulate(lower(chosen, plan), build_cluster(config), launch=gap, merged=merged)
    return Result(config, timeline, 0.0)


def table_text(frame: "pd.DataFrame") -> str:
    """Return the table of a study as its CSV text."""
    return str(frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def moved_rows(text: str, known: Path) -> list[str]:
    """Return the rows of a table that a known table lacks; columns of CPU seconds are not compared."""
    return [row for row in _compared(text) if row not in set(_compared(known.read_text("utf-8")))]


def _compared(text: str) -> list[str]:
    """The rows of a CSV text as texts, without columns of CPU seconds."""
    rows = list(csv.reader(text.splitlines()))
    kept = [i for i, column in enumerate(rows[0]) if not column.endswith(CPU_SUFFIX)]
    return [",".join(row[i] for i in kept) for row in rows]


def run_study(name: str, folder: Path, *, quick: bool = False) -> dict[str, Any]:
    """Run a study, write table.csv, figure.png and finding.txt into ``folder``, and say what it found.

    The rows of the quick form must stand in the table of ``results``, where there is one. Raises `AssertionError` if
    they do not, or the claim does not hold.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    study = cast("Study", module_of(name))
    start = time.process_time()
    frame = study.run(quick=quick)
    finding = study.check(frame)
    known = RESULTS / name / "table.csv"
    if quick and known.is_file():
        moved = moved_rows(table_text(frame), known)
        assert not moved, f"{len(moved)} rows are not in {known}, first {moved[0]}: run the study"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.csv").write_text(table_text(frame), encoding="utf-8")
    (folder / "finding.txt").write_text(finding + "\n", encoding="utf-8")
    study.plot(frame).savefig(folder / "figure.png", dpi=150, metadata={"Software": None})
    return {
        "name": name,
        "finding": finding,
        "folder": str(folder),
        "cpu_s": round(time.process_time() - start, 2),
    }


def run_studies(
    names: list[str], out: Path, executor: Executor, *, quick: bool = False
) -> list[dict[str, Any]]:
    """Run studies in an executor, each into its own folder of ``out``; answers in the order of ``names``.

    One whose claim does not hold has ``failed``.
    """
    jobs = [executor.submit(run_study, name, out / name, quick=quick) for name in names]
    return [_answer(name, job) for name, job in zip(names, jobs, strict=True)]


def _answer(name: str, job: "Future[dict[str, Any]]") -> dict[str, Any]:
    """Return what a study found, or why its claim does not hold."""
    try:
        return job.result()
    except AssertionError as why:
        return {"name": name, "finding": f"does not hold: {why}", "failed": True, "cpu_s": 0.0}


def module_of(name: str) -> object:
    """Return the module of a study by its dashed name."""
    return import_module(f"experiments.studies.{name.replace('-', '_')}")


def write_index(out: Path, questions: dict[str, str]) -> None:
    """Write ``README.md`` into ``out``: a line for every study that has its finding there."""
    lines = []
    for name, question in questions.items():
        path = out / name / "finding.txt"
        if path.is_file():
            finding = path.read_text(encoding="utf-8").splitlines()[0].replace("|", "\\|")
            lines.append(
                f"| [{question}]({name}/figure.png) | {finding} | `./run study {name}` |\n"
            )
    (out / "README.md").write_text(INDEX_HEAD + "".join(lines), encoding="utf-8")


def write(file: str) -> None:
    """Run the study of a module's ``__file__`` and write its answer into ``results``."""
    name = Path(file).stem.replace("_", "-")
    run_study(name, RESULTS / name)
