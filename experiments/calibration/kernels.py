"""Fit the constants of kernels to a table of measurements, and write them to the device files.

``python -m experiments.calibration.kernels CSV [--dry-run] [--no-cross]``. Coordinate search on a
multiplicative grid that gets finer, from a few fixed starts: no randomness. The loss is the mean
absolute log error, capped so that outliers do not pull, every shape family weighted by the
root of its rows. Then whole sources are left out one at a time and predicted by constants fitted on the others.
"""

import argparse
import csv
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.calibration.files import write_calibration
from experiments.calibration.jobs import JOBS, RANGES, Job, Part, Range
from experiments.score_kernels import PLAIN, Row, kernels_of, measured_time, memory_kind, number
from sim.device import Device
from sim.errors import InputError, unknown
from sim.kernels import kernel_time
from sim.kernels.shapes import Kernel
from sim.units import GFLOP, us
from topologies.devices import canonical
from topologies.devices import device as load_device

CAP = 0.5
"""Log error beyond which a row weighs no more."""
SMALLEST = 0.3 * GFLOP
"""FLOPs below which a row says only how long a start takes."""
CLOCK = 20 * us
"""Shortest time a clock of one microsecond resolves to a few percent."""
FINER = (1.5, 1.25, 1.1, 1.04, 1.02, 1.01)
"""Steps of the search, one a sweep."""

Constants = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Point:
    """A measured row: its kernels (run one after the other), device, seconds, weight and origin."""

    kernels: tuple[Kernel, ...]
    device: str
    seconds: float
    weight: float
    family: tuple[str, ...]
    source: str


def usable(row: Row, kernels: tuple[Kernel, ...], seconds: float) -> bool:
    """Return whether a row can teach: not suspect, not L2-resident, not below its clock."""
    note = row.get("note") or ""
    if any(word in note for word in ("suspect", "exceeds", "maximum quoted", "incl. dispatch")):
        return False
    if "1 us resolution" in note and seconds < CLOCK:
        return False
    flops = sum(kernel.flops for kernel in kernels)
    return flops == 0.0 or flops >= SMALLEST


def points(rows: Sequence[Row], job: Job, part: Part) -> list[Point]:
    """Return the rows of a part, weighted so that a family of shapes counts by its root."""
    found = []
    for row in rows:
        name, dtype = row["kernel"].lower(), row["dtype"].lower()
        if not name.startswith(part.kernels) or dtype not in part.dtypes:
            continue
        if part.passes and row["pass"] not in part.passes:
            continue
        try:
            where = canonical(row["device"])
            kernels = kernels_of(row)
            seconds = measured_time(row, kernels)
        except InputError:
            continue
        if where in job.measured and usable(row, kernels, seconds):
            family = (row["source"], name, row["n"], row["k"])
            found.append(Point(kernels, where, seconds, 1.0, family, row["source"]))
    sizes = Counter(point.family for point in found)
    return [replace(point, weight=1 / math.sqrt(sizes[point.family])) for point in found]


def log_error(point: Point, devices: Mapping[str, Device]) -> float:
    """Return the log of predicted over measured."""
    device = devices[point.device]
    return math.log(sum(kernel_time(k, device) for k in point.kernels) / point.seconds)


def with_constants(names: Iterable[str], constants: Constants) -> dict[str, Device]:
    """Return the devices, their calibration overlaid by ``constants``."""
    devices = {name: load_device(name) for name in names}
    return {
        name: replace(device, calibration={**device.calibration, **constants})
        for name, device in devices.items()
    }


def loss(data: Sequence[Point], constants: Constants) -> float:
    """Return the weighted sum of capped absolute log errors."""
    devices = with_constants({point.device for point in data}, constants)
    return sum(point.weight * min(CAP, abs(log_error(point, devices))) for point in data)


def prefix_of(part: str) -> str:
    """Return the key prefix of a part: what stands before ``#`` (parts may share a prefix)."""
    return part.split("#", 1)[0]


def range_of(key: str) -> Range:
    """Return the range of a full key by its family and last word."""
    return RANGES[f"{key.split('.', 1)[0]}.{key.rsplit('.', 1)[1]}"]


def parameters(job: Job, data: Mapping[str, Sequence[Point]]) -> dict[str, tuple[str, ...]]:
    """Return every free key with the parts whose loss it moves."""
    free: dict[str, tuple[str, ...]] = {}
    for key in job.shared:
        family = key.split(".", 1)[0]
        free[key] = tuple(name for name in data if name.startswith(family))
    for name in data:
        prefix = prefix_of(name)
        touched = tuple(other for other in data if prefix_of(other) == prefix)
        for constant in job.parts[name].free:
            free[f"{prefix}.{constant}"] = touched
    return free


def descend(
    data: Mapping[str, Sequence[Point]],
    free: Mapping[str, tuple[str, ...]],
    constants: dict[str, float],
) -> tuple[float, dict[str, float]]:
    """Return the loss and constants a coordinate search ends at."""
    losses = {name: loss(part, constants) for name, part in data.items()}
    for factor in FINER:
        for key, touched in free.items():
            low, high, _ = range_of(key)
            moved = True
            while moved:
                moved = False
                for step in (factor, 1.0 / factor):
                    trial = {**constants, key: min(max(constants[key] * step, low), high)}
                    new = {name: loss(data[name], trial) for name in touched}
                    if sum(new.values()) < sum(losses[name] for name in touched) - 1e-4:
                        constants, moved = trial, True
                        losses |= new
    return sum(losses.values()), constants


def fit(job: Job, data: Mapping[str, Sequence[Point]]) -> dict[str, float]:
    """Return the best constants of a job over its starts, to three digits."""
    data = {name: part for name, part in data.items() if part}
    free = parameters(job, data)
    best: tuple[float, dict[str, float]] | None = None
    for start in job.starts:
        initial = {
            key: start.get(f"{key.split('.', 1)[0]}.{key.rsplit('.', 1)[1]}", range_of(key).start)
            for key in free
        }
        found = descend(data, free, initial)
        if best is None or found[0] < best[0] - 1e-4:
            best = found
    assert best is not None
    return {key: float(f"{value:.3g}") for key, value in best[1].items()}


def summary(data: Iterable[Point], constants: Constants) -> tuple[float, float, float]:
    """Return, over families: median absolute error, its 90th percentile, median signed error."""
    data = list(data)
    devices = with_constants({point.device for point in data}, constants)
    families: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for point in data:
        families[point.family].append(math.exp(log_error(point, devices)) - 1.0)
    absolute = sorted(statistics.median(map(abs, errors)) for errors in families.values())
    signed = statistics.median(statistics.median(errors) for errors in families.values())
    return statistics.median(absolute), absolute[int(0.9 * (len(absolute) - 1))], signed


def memory_shares(rows: Sequence[Row], job: Job) -> dict[str, float]:
    """Return the share of the data-sheet bandwidth that memory kernels reach: medians over sources.

    Copies, streams and adds make ``memory.bandwidth``; another kind its own constant.
    """
    shares: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        name = row["kernel"].lower()
        if not name.startswith(("mem_", "stream_")) or "model" in name:
            continue
        try:
            where = canonical(row["device"])
            share = number(row, "frac_hbm")
        except InputError:
            continue
        if where == job.device and share <= 1.0:
            kind = memory_kind(name)
            plain = kind in PLAIN
            shares["bandwidth" if plain else kind][row["source"]].append(share)
    return {
        f"memory.{kind}": round(statistics.median(map(statistics.median, found.values())), 3)
        for kind, found in sorted(shares.items())
    }


def cross_validate(
    job: Job, data: Mapping[str, Sequence[Point]], out: Callable[[str], None]
) -> None:
    """Print, for each source, its error by constants fitted without it."""
    sources = sorted({point.source for part in data.values() for point in part})
    if len(sources) < 2:
        return
    for source in sources:
        kept = {
            name: [point for point in part if point.source != source] for name, part in data.items()
        }
        held = [
            point
            for name, part in data.items()
            for point in part
            if point.source == source and kept[name]
        ]
        if held:
            middle, high, bias = summary(held, fit(job, kept))
            out(
                f"    without {source[:60]:60s} {len(held):4d} rows:"
                f" median {middle:.3f} p90 {high:.3f} bias {bias:+.3f}"
            )


def run(
    jobs: Sequence[Job],
    rows: Sequence[Row],
    *,
    write: bool,
    cross: bool,
    out: Callable[[str], None],
) -> None:
    """Fit every job, print its errors, and write its device file."""
    for job in jobs:
        data = {name: points(rows, job, part) for name, part in job.parts.items()}
        constants = fit(job, data)
        constants |= memory_shares(rows, job)
        out(f"{job.device}")
        lines = []
        for name, part in data.items():
            if part:
                middle, high, bias = summary(part, constants)
                figures = f"median {middle:.3f} p90 {high:.3f} bias {bias:+.3f}"
                lines.append(f"{name}: {len(part)} rows, {figures}")
                out(f"    {name:24s} {len(part):4d} rows: {figures}")
        if write:
            write_calibration(job.device, constants, lines)
        if cross:
            cross_validate(job, data, out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the calibration from the command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.calibration.kernels")
    parser.add_argument("csv", type=Path, help="table of measured kernels")
    parser.add_argument("--only", help="fit this device file alone")
    parser.add_argument("--dry-run", action="store_true", help="fit and print, write nothing")
    parser.add_argument("--no-cross", action="store_true", help="skip leaving sources out")
    options = parser.parse_args(arguments)
    with options.csv.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    jobs = [job for job in JOBS if options.only in (None, job.device)]
    if not jobs:
        parser.error(unknown("device file", options.only, [job.device for job in JOBS]))
    run(
        jobs,
        rows,
        write=not options.dry_run,
        cross=not options.no_cross,
        out=lambda text: print(text, file=sys.stdout, flush=True),  # noqa: T201
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
