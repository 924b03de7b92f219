"""A study: one question, a module with ``run``, ``check`` and ``plot``; this replays, runs it and keeps the answer."""

import csv
import re
import time
from concurrent.futures import Executor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from experiments.runfile import ClusterSpec, RunConfig
from experiments.simulation import JITTER, Result, build_cluster
from sim.engine import simulate
from workloads.lower import lower
from workloads.model import Model
from workloads.models import model as preset_model
from workloads.plan import Plan
from workloads.software import software

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

RESULTS = Path(__file__).resolve().parent.parent / "results"
"""Where whole tables are kept, in a checkout."""
FINDING_CHARACTERS = 160
"""Longest finding of the index."""
CPU_SUFFIX = "_cpu_s"
"""Columns so named are measured on the machine at hand; nobody compares them."""
INDEX_HEAD = """# Studies

Each asks one question, replays it, checks its claim and draws the answer: `table.csv`, `figure.png`, `finding.txt`.
`./run study all` makes them all again.
`./run simulate llama3-405b --gantt results/llama3-405b/gantt.png` draws the first picture of the front page.

| question | finding | command |
| --- | --- | --- |
"""


class ClaimError(Exception):
    """What a study claims does not hold."""


def claim(holds: object, message: object) -> None:
    """Raise `ClaimError` with what was found instead, unless the claim holds (``python -O`` keeps it)."""
    if not holds:
        raise ClaimError(str(message))


class Study(Protocol):
    """What a module of ``experiments.studies`` has. Its docstring starts with the question."""

    def run(self, *, quick: bool = False) -> "pd.DataFrame":
        """Replay the cases, one row each; ``quick`` takes fewer, and its rows are rows of the whole table."""

    def check(self, frame: "pd.DataFrame") -> str:
        """`claim` what was expected; return two lines: the finding, and what it was held against."""

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
    jitter: float = JITTER,
    **parameters: Any,
) -> Result:
    """Replay one step of a model on a cluster preset with ``parameters`` of its family.

    ``merged`` plays runs of ops as one step each: the same numbers from fewer events. ``launch``: host seconds a
    kernel (default: those of the plan's software). ``jitter``: spread of the devices' speeds, that of ``simulate``;
    ``bubble_against_microbatches``, whose claim is a closed form of equal devices, takes 0 (and ``network_fidelity``,
    which compares ways of playing one network, has the engine's default of 0).
    """
    chosen = preset_model(model) if isinstance(model, str) else model
    spec = ClusterSpec(preset=preset, num_devices=num_devices, parameters=parameters)
    config = RunConfig(name=chosen.name, model=chosen, cluster=spec, plan=plan)
    gap = software(plan.software).launch if launch is None else launch
    timeline = simulate(
        lower(chosen, plan), build_cluster(config), launch=gap, merged=merged, jitter=jitter
    )
    return Result(config, timeline, 0.0)


def table_text(frame: "pd.DataFrame") -> str:
    """Return the table of a study as its CSV text."""
    return str(frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def moved_rows(text: str, known: Path) -> list[str]:
    """Return the rows of a table that a known table lacks; columns of CPU seconds are not compared."""
    kept = set(_compared(known.read_text("utf-8")))
    return [row for row in _compared(text) if row not in kept]


def _compared(text: str) -> list[str]:
    """The rows of a CSV text as texts, without columns of CPU seconds."""
    rows = list(csv.reader(text.splitlines()))
    kept = [i for i, column in enumerate(rows[0]) if not column.endswith(CPU_SUFFIX)]
    return [",".join(row[i] for i in kept) for row in rows]


def run_study(name: str, folder: Path | None, *, quick: bool = False) -> dict[str, Any]:
    """Run a study, write table.csv, figure.png and finding.txt into ``folder`` (None: nowhere), say what it found.

    The rows of the quick form must stand in the table of ``results``, where there is one. Raises `ClaimError` if
    they do not, or the claim does not hold.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    study = cast("Study", module_of(name))
    start = time.process_time()
    frame = study.run(quick=quick)
    finding = study.check(frame)
    drawn = study.plot(frame)
    if quick:
        _compare(name, table_text(frame))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "table.csv").write_text(table_text(frame), encoding="utf-8")
        (folder / "finding.txt").write_text(finding + "\n", encoding="utf-8")
        drawn.savefig(folder / "figure.png", dpi=150, metadata={"Software": None})
    return {
        "name": name,
        "finding": finding,
        "folder": str(folder) if folder is not None else "",
        "cpu_s": round(time.process_time() - start, 2),
    }


def _compare(name: str, text: str) -> None:
    """Claim that the rows of a quick form stand in the table that is kept."""
    known = RESULTS / name / "table.csv"
    claim(known.is_file(), f"there is no kept table {known} to compare with: run the whole study")
    moved = moved_rows(text, known)
    first = moved[0] if moved else ""
    claim(not moved, f"{len(moved)} rows are not in {known}, first {first}: run the whole study")


def attempt(name: str, folder: Path | None, *, quick: bool = False) -> dict[str, Any]:
    """Run a study; where its claim does not hold, return why, with ``failed``."""
    try:
        return run_study(name, folder, quick=quick)
    except ClaimError as why:
        return {
            "name": name,
            "finding": f"does not hold: {why}",
            "folder": "",
            "failed": True,
            "cpu_s": 0.0,
        }


def run_studies(
    names: list[str], out: Path | None, executor: Executor, *, quick: bool = False
) -> list[dict[str, Any]]:
    """Run studies in an executor, each into its own folder of ``out``; answers in the order of ``names``.

    One whose claim does not hold has ``failed``.
    """
    folders = [None if out is None else out / name for name in names]
    jobs = [
        executor.submit(attempt, name, folder, quick=quick)
        for name, folder in zip(names, folders, strict=True)
    ]
    return [job.result() for job in jobs]


def module_of(name: str) -> object:
    """Return the module of a study by its dashed name."""
    return import_module(f"experiments.studies.{name.replace('-', '_')}")


def write_index(out: Path, questions: dict[str, str]) -> None:
    """Write ``README.md`` into ``out``: a line for every study that has its finding there."""
    lines = []
    for name, question in questions.items():
        path = out / name / "finding.txt"
        if path.is_file():
            finding = shortened(path.read_text(encoding="utf-8").splitlines()[0])
            finding = finding.replace("|", "\\|")
            lines.append(
                f"| [{question}]({name}/figure.png) | {finding} | `./run study {name}` |\n"
            )
    (out / "README.md").write_text(INDEX_HEAD + "".join(lines), encoding="utf-8")


def shortened(finding: str) -> str:
    """Return a finding for the index: whole clauses of it, at most `FINDING_CHARACTERS`.

    >>> shortened("It holds; " + "because of much that the study's own file says, " * 4 + "and more.")
    'It holds.'
    """
    if len(finding) <= FINDING_CHARACTERS:
        return finding
    ends = [end.start() for end in re.finditer(r"[;.](?= )", finding)] or [
        end.start() for end in re.finditer(r"[:,](?= )", finding)
    ]
    return finding[: max((e for e in ends if e < FINDING_CHARACTERS), default=ends[0])] + "."


def write(file: str) -> None:
    """Run the study of a module's ``__file__`` and write its answer into ``results``."""
    name = Path(file).stem.replace("_", "-")
    run_study(name, RESULTS / name)
