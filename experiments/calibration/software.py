"""Fit the numeric constants of software on whole sources: ``python -m experiments.calibration.software [RUNS.csv]``.

Each constant is replayed at every value of a short list, over the runs it touches (a few of each model, source and
hardware). The value with the least error on its fit set is the one to ship; beside it stands what the sources outside
the set say, and cross-validation: for each source, the value that all the others choose and that source's error there.
"""

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from experiments import simulation
from experiments.bands import FILE
from experiments.row_table import read_rows
from experiments.row_text import Row, text
from experiments.score_runs import WORKERS, score_runs
from experiments.score_sets import clean, family, platform, value
from experiments.scoreboard import signed_error
from experiments.software_constants import CROSS_VALIDATION, SOFTWARE_CONSTANTS, LeftOut
from sim.kernels import steady
from sim.units import us
from topologies.devices import device
from workloads.layers import sizes
from workloads.software import SOFTWARE

EACH = 3
"""Runs taken of each source, model and hardware: first, middle and last."""
BANDWIDTH, SHARE = "EAGER_BANDWIDTH", "early.share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """How a constant is fitted; its value, unit and fit set are those of `experiments.software_constants`.

    ``values`` tried; ``sources`` families of runs it touches (`experiments.score_sets.family`), ``touches`` which of
    their rows; ``use`` sets it in this process.
    """

    values: tuple[float, ...]
    sources: tuple[str, ...]
    use: Callable[[float], None]
    touches: Callable[[Row], bool] = lambda row: True


def _use_bandwidth(share: float) -> None:
    vars(sizes)[BANDWIDTH] = share


def _use_launch(seconds: float) -> None:
    SOFTWARE["megatron-core"] = replace(SOFTWARE["megatron-core"], launch=seconds)


def _use_share(share: float) -> None:
    constants = device("h100-sxm").calibration
    assert isinstance(constants, dict)
    constants[SHARE] = share
    steady.cache_clear()


def _use_jitter(deviation: float) -> None:
    simulation.JITTER = deviation


def _early(row: Row) -> bool:
    return text(row, "hardware").startswith("H100") and value(row, "year") == 2023


def _several(row: Row) -> bool:
    return platform(row) == "gpu" and value(row, "gpus") >= 64


CONSTANTS: Mapping[str, Constant] = {
    BANDWIDTH: Constant(
        values=(0.7, 0.8, 0.9, 1.0), sources=("mpt", "titan"), use=_use_bandwidth,
        touches=lambda row: text(row, "hardware").startswith("A100"),
    ),
    "HOST_LAUNCH_MODULES": Constant(
        values=(10 * us, 20 * us, 30 * us, 40 * us, 50 * us),
        sources=("modelzoo", "mbridge", "mbridge-card", "dgxc", "simumax-b200"), use=_use_launch,
        touches=lambda row: value(row, "n_experts") > 1 and "nemotron" not in text(row, "model"),
    ),
    SHARE: Constant(
        values=(0.8, 0.84, 0.88, 0.92, 1.0), sources=("mpt", "jaxtb", "mlperf-gpt3"), use=_use_share, touches=_early
    ),
    "JITTER": Constant(
        values=(0.0, 0.005, 0.01, 0.015, 0.02), sources=("mpt", "dgxc", "mlperf-405b", "korthi-t5", "titan", "jaxtb"),
        use=_use_jitter, touches=_several,
    ),
}  # fmt: skip
"""The constants that runs decide. Those of kernels and links are fitted on kernels and collectives alone."""


def chosen_rows(rows: Sequence[Row], constant: Constant) -> list[Row]:
    """Return the runs a constant is judged by: clean, of its sources, a few of each group."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if clean(row) and family(row["id"] or "") in constant.sources and constant.touches(row):
            groups[tuple(row[column] or "" for column in ("source", "model", "hardware"))].append(
                row
            )
    found: list[Row] = []
    for members in groups.values():
        places = (
            {0, len(members) // 2, len(members) - 1} if len(members) > EACH else range(len(members))
        )
        found += [members[place] for place in sorted(places)]
    return found


def replay(name: str, number: float, path: Path) -> dict[str, list[float]]:
    """Return, by family, the median signed error of each group of the runs in a file with a constant at a value.

    Sets the constant in this process: to be called in one of its own.
    """
    CONSTANTS[name].use(number)
    rows = read_rows(path)
    groups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row, answer in zip(rows, score_runs(path, workers=1), strict=True):
        error = signed_error(answer, "step_time_s")
        if error is not None:
            groups[(family(row["id"]), row["model"], row["hardware"])].append(error)
    found: dict[str, list[float]] = defaultdict(list)
    for (source, *_), errors in groups.items():
        found[source].append(median(errors))
    return dict(found)


Errors = Mapping[float, Mapping[str, Sequence[float]]]
"""Value -> family -> signed error of each of its groups."""


def error_of(errors: Mapping[str, Sequence[float]], sources: Iterable[str]) -> float:
    """Return the mean absolute error over the groups of some sources.

    >>> error_of({"a": [0.1, -0.3], "b": [0.5]}, ["a"])
    0.2
    """
    found = [abs(error) for source in sources for error in errors.get(source, ())]
    return fmean(found) if found else float("nan")


def best(errors: Errors, sources: Sequence[str]) -> float:
    """Return the value with the least error on some sources.

    >>> best({1.0: {"a": [0.1]}, 2.0: {"a": [-0.05]}}, ["a"])
    2.0
    """
    return min(errors, key=lambda number: error_of(errors[number], sources))


def left_out(name: str, errors: Errors) -> list[LeftOut]:
    """Return what each source left out says: the value the others choose, its error there and as shipped."""
    shipped = SOFTWARE_CONSTANTS[name].value()
    there = [s for s in CONSTANTS[name].sources if any(s in found for found in errors.values())]
    here = errors[min(errors, key=lambda tried: abs(tried - shipped))]
    found = []
    for source in there if len(there) > 1 else ():
        chosen = best(errors, [s for s in there if s != source])
        found.append(
            LeftOut(
                name, source, chosen, error_of(errors[chosen], [source]), error_of(here, [source])
            )
        )
    return found


def report(name: str, errors: Errors) -> str:
    """Write what the fit set chooses, what the other sources say of it, and each source left out in turn."""
    constant, shipped = CONSTANTS[name], SOFTWARE_CONSTANTS[name]
    there = [s for s in constant.sources if any(s in found for found in errors.values())]
    others = [s for s in there if s not in shipped.fitted_on]
    chosen = best(errors, shipped.fitted_on)
    lines = [
        f"{name}: fitted on {', '.join(shipped.fitted_on)}: {chosen:g} {shipped.unit}; shipped {shipped.value():g}"
    ]
    for number, found in errors.items():
        lines.append(
            f"  at {number:<8g} error on the fit set {error_of(found, shipped.fitted_on):6.1%}, on the others "
            f"{error_of(found, others):6.1%}"
        )
    lines += [
        f"  without {out.source:14} {out.chosen:<8g} chosen; {out.source} then {out.error:6.1%}, "
        f"at the shipped value {out.shipped_error:6.1%}"
        for out in left_out(name, errors)
    ]
    return "\n".join(lines)


def _asked(arguments: Sequence[str]) -> tuple[list[str], Path, bool]:
    """Return the constants to fit, the table of runs and whether to write; -h tells what this module does."""
    parser = argparse.ArgumentParser(
        prog="experiments.calibration.software",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "asked",
        nargs="*",
        metavar="NAME|RUNS.csv",
        help=f"a constant to fit alone, of {', '.join(CONSTANTS)}; or the table of runs",
    )
    parser.add_argument("--write", action="store_true", help=f"keep it in {CROSS_VALIDATION.name}")
    options = parser.parse_args(arguments)
    asked = options.asked
    paths = [a for a in asked if a not in CONSTANTS]
    table = Path(paths[0]) if paths else FILE.with_name("runs.csv")
    if len(paths) > 1 or not table.is_file():
        parser.error(f"{', '.join(paths)}: neither constants nor the path of one table")
    return [a for a in asked if a in CONSTANTS] or list(CONSTANTS), table, options.write


def main(arguments: Sequence[str]) -> None:
    """Fit and print; a constant's name among the arguments restricts it to that."""
    names, table, write = _asked(arguments)
    kept: list[LeftOut] = []
    rows = read_rows(table)
    with (
        TemporaryDirectory() as folder,
        ProcessPoolExecutor(WORKERS, max_tasks_per_child=1) as pool,
    ):
        for name in names:
            path = Path(folder) / f"{name}.csv"
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(chosen_rows(rows, CONSTANTS[name]))
            values = CONSTANTS[name].values
            futures = [pool.submit(replay, name, number, path) for number in values]
            errors = {
                number: future.result() for number, future in zip(values, futures, strict=True)
            }
            kept += left_out(name, errors)
            sys.stdout.write(report(name, errors) + "\n")
            sys.stdout.flush()
    if write:
        with CROSS_VALIDATION.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([LeftOut._fields, *(_rounded(out) for out in kept)])


def _rounded(out: LeftOut) -> LeftOut:
    return out._replace(error=round(out.error, 4), shipped_error=round(out.shipped_error, 4))


if __name__ == "__main__":
    main(sys.argv[1:])
