"""Fit the constants of link kinds on measured collectives: ``python -m experiments.calibration.collectives CSV``.

A constant belongs to a kind of link and an algorithm, never to a machine, a size or a row. Families of constants are
fitted one after the other by a coordinate search on the logarithms of predicted over measured time (numpy alone, no
random numbers), with a robust loss, one vote a group of rows, and a weak pull to the starting values, so that a
constant the data do not determine stays where the library's own table has it. `--cross` leaves each source out in turn.
"""

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.collective_hardware import UnsupportedError, read_hardware
from experiments.score_collectives import read_row, size_of
from sim.cluster import LinkKind
from sim.collectives import ALGORITHMS, Communicator, library_of
from sim.collectives.communicator import join
from sim.collectives.cost import Footprint, footprint
from sim.collectives.layout import blocks
from sim.errors import InputError
from sim.units import MiB, us
from topologies.link_kinds import link_kinds

Constants = dict[str, float]
Bounds = tuple[float, float, float]
Table = Mapping[str, LinkKind]
BANDS = ((16 * MiB, 0.10), (MiB, 0.20), (0.0, 0.35))
"""Error aimed at from these sizes up."""

SAME = 0.03
"""A kind's constant this close to its class's is left to the class."""
PULL, PULL_TO_CLASS = 0.03, 0.3
"""Weight of the pull to the starting values, against one group of rows: of a class, of a kind in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """All sizes of one group of rows: what it measured, and the footprints of the ways it may have run."""

    label: tuple[str, ...]
    collective: str
    nbytes: np.ndarray
    seconds: np.ndarray
    scale: np.ndarray
    ways: tuple[tuple[str, tuple[Footprint, ...]], ...]

    @property
    def outer(self) -> str:
        """The link kind whose constants matter most."""
        return self.ways[0][1][0].levels[-1][0].name


@dataclass(frozen=True, slots=True)
class Family:
    """Constants fitted together, with their bounds, and the samples they are fitted on."""

    names: Mapping[str, Bounds]
    wants: Callable[[Sample], bool]


def samples(path: str | Path) -> list[Sample]:
    """Read a table into samples; rows that cannot be predicted, or hold no time, are left out."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    known: dict[tuple[str, int, int], Communicator] = {}
    groups: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    run: dict[tuple[str, ...], tuple[str, str, Communicator]] = {}
    for row in rows:
        try:
            how = read_row(row, known)
            nbytes, time = size_of(row), float(row["time_us"]) * us
        except (UnsupportedError, InputError, ValueError):
            continue
        if not read_hardware(row["hardware"]).exact or how[1] == "ep" or _disputed(row):
            continue
        label = (
            row["source"],
            row["hardware"],
            row["n_devices"],
            row["n_nodes"],
            row["collective"],
        )
        groups.setdefault(label, []).append((nbytes, time))
        run[label] = how
    found = (_sample(label, run[label], points) for label, points in groups.items())
    return [sample for sample in found if sample is not None]


def _disputed(row: Mapping[str, str]) -> bool:
    """Sends of the vidur profiles: an eager loop on two devices, 3 to 5 times as fast as nccl-tests and XLA."""
    return "vidur" in row["source"] and row["collective"] == "sendrecv"


def _sample(
    label: tuple[str, ...],
    how: tuple[str, str, Communicator],
    points: Sequence[tuple[float, float]],
) -> Sample | None:
    kind, algorithm, communicator = how
    cluster, groups = communicator.cluster, communicator.groups
    if communicator.size < 2:
        return None
    names = library_of(cluster, groups) if algorithm == "auto" else (algorithm,)
    parts = blocks(cluster, groups)
    ways = []
    for name in names:
        if kind in ALGORITHMS[name].kinds:
            stages = join(ALGORITHMS[name], kind, parts)
            if not isinstance(stages, str):
                ways.append(
                    (name, tuple(footprint(cluster, stage, communicator.owner) for stage in stages))
                )
    if not ways:
        return None
    nbytes, seconds = np.array(sorted(points)).T
    scale = np.select([nbytes >= low for low, _ in BANDS], [aim for _, aim in BANDS])
    return Sample(label, kind, nbytes, seconds, scale, tuple(ways))


def predict(sample: Sample, table: Table) -> np.ndarray:
    """Seconds of a sample under a table of link kinds."""
    best = np.full(len(sample.nbytes), np.inf)
    for _, graphs in sample.ways:
        total = np.zeros(len(sample.nbytes))
        for graph in graphs:
            options = graph.regimes(sample.collective, table)
            total += np.min([[r.seconds(s) for s in sample.nbytes] for r in options], axis=0)
        best = np.minimum(best, total)
    return best


def loss(chosen: Sequence[Sample], table: Table) -> float:
    """Mean over samples of the robust error: square near the aim, linear beyond."""
    total = 0.0
    for sample in chosen:
        miss = np.log(predict(sample, table) / sample.seconds) / sample.scale
        total += float(np.mean(np.sqrt(1 + miss**2) - 1))
    return total / max(1, len(chosen))


def fit(
    bounds: Mapping[str, Bounds],
    kinds: Sequence[str],
    chosen: Sequence[Sample],
    table: Table,
    pull: float,
) -> Constants:
    """Coordinate search from the start of each bound: steps of a factor, halved when none helps.

    The constants are shared by ``kinds``; ``pull`` is the weight of staying where they start.
    """
    value = {name: start for name, (start, _, _) in bounds.items()}

    def score_of(trial: Constants) -> float:
        away = sum(np.log(trial[name] / bounds[name][0]) ** 2 for name in bounds)
        return loss(chosen, shared(table, kinds, trial)) + pull * float(away) / len(chosen)

    best, step = score_of(value), 0.7
    while step > 0.01:
        improved = False
        for name, (_, low, high) in bounds.items():
            for way in (step, -step):
                trial = value | {name: float(np.clip(value[name] * np.exp(way), low, high))}
                if (score := score_of(trial)) < best - 1e-6:
                    value, best, improved = trial, score, True
                    break
        if not improved:
            step /= 2
    return {name: float(f"{v:.3g}") for name, v in value.items()}


def shared(
    table: Table, kinds: Sequence[str], constants: Mapping[str, float]
) -> dict[str, LinkKind]:
    """A table with some constants of several kinds replaced."""
    new = dict(table)
    for kind in kinds:
        new = changed(new, kind, constants)
    return new


def changed(table: Table, kind: str, constants: Mapping[str, float]) -> dict[str, LinkKind]:
    """A table with some constants of one kind replaced."""
    old = table[kind]
    return {**table, kind: replace(old, constants={**old.constants, **constants})}


def _plain(prefix: str, *, steps: bool = True) -> dict[str, Bounds]:
    bounds = {
        f"{prefix}base": (15 * us, 4 * us, 800 * us),
        f"{prefix}ramp": (0.8, 0.6, 1.0),
        f"{prefix}efficiency": (0.95, 0.1, 1.0),
    }
    return bounds | ({f"{prefix}step": (0.5 * us, 0.01 * us, 100 * us)} if steps else {})


def _only(*collectives: str, algorithm: str = "", without: str = "") -> Callable[[Sample], bool]:
    def wants(sample: Sample) -> bool:
        able = [name for name, _ in sample.ways]
        fits = (not algorithm or algorithm in able) and (not without or without not in able)
        return sample.collective in collectives and fits

    return wants


RING: dict[str, Bounds] = {
    "base": (8 * us, 5 * us, 300 * us),
    "ll_step": (1 * us, 0.1 * us, 60 * us),
    "ll128_step": (2 * us, 0.1 * us, 80 * us),
    "simple_step": (4 * us, 0.2 * us, 100 * us),
    "ll_rate": (0.3, 0.02, 0.6),
    "ramp": (0.8, 0.6, 1.0),
    "efficiency": (0.95, 0.3, 1.0),
}
SEND: dict[str, Bounds] = {
    "p2p_base": (12 * us, 1 * us, 300 * us),
    "p2p_ramp": (0.9, 0.6, 1.0),
    "p2p_efficiency": (0.95, 0.1, 1.0),
    "p2p_slow": (0.3, 0.02, 1.0),
    "p2p_plateau": (100 * us, 1 * us, 2000 * us),
}
FAMILIES: tuple[Family, ...] = (
    Family(RING, _only("all_gather", "reduce_scatter", algorithm="ring", without="direct")),
    Family(_plain(""), _only("all_gather", "reduce_scatter", algorithm="direct")),
    Family(_plain("direct_all_reduce_"), _only("all_reduce", algorithm="direct")),
    Family(
        {
            "ring_all_reduce_base": RING["base"],
            "ring_all_reduce_efficiency": RING["efficiency"],
            "ring_all_reduce_ramp": RING["ramp"],
        },
        _only("all_reduce", algorithm="ring", without="nvls"),
    ),
    Family(_plain("nvls_", steps=False), _only("all_reduce", algorithm="nvls")),
    Family(
        {name: bounds for p in ("tree", "nvls_tree") for name, bounds in _plain(f"{p}_").items()},
        _only("all_reduce", algorithm="tree"),
    ),
    Family(_plain("nvls_tree_"), lambda s: s.ways[0][0] == "nvls_tree"),
    Family(_plain("sharp_", steps=False), _only("all_reduce", algorithm="sharp")),
    Family(_plain("pairwise_"), _only("all_to_all")),
    Family(SEND, _only("sendrecv", "send_recv")),
)
"""What is fitted together, in this order; a family without samples on a kind is skipped."""


CLASSES: Mapping[str, tuple[str, ...]] = {
    "nvlink": ("nvlink2", "nvlink3", "nvlink4", "nvlink5"),
    "mesh": ("xgmi",),
    "network": (
        "edr-100", "hdr-200", "ndr-400", "xdr-800", "roce-100", "roce-200", "roce-400", "roce-800", "efa", "tcpxo",
        "opa100",
    ),
}  # fmt: skip
"""Kinds of link that one software drives, ``[like.NAME]`` in links.toml: what one lacks it takes from its class."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants of every class, and of every kind where it differs from its class."""

    classes: dict[str, Constants]
    kinds: dict[str, Constants]

    def table(self, table: Table) -> dict[str, LinkKind]:
        """A table with these constants."""
        new = dict(table)
        for name, kinds in CLASSES.items():
            new = shared(new, kinds, self.classes.get(name, {}))
        for kind, values in self.kinds.items():
            new = changed(new, kind, values)
        return new


def calibrate(found: Sequence[Sample], table: Table) -> Calibration:
    """Fit every family on a class of kinds together, then on each kind that has samples, pulled to its class."""
    result = Calibration({}, {})
    for name, kinds in CLASSES.items():
        for family in FAMILIES:
            of_class = [s for s in found if s.outer in kinds and family.wants(s)]
            if not of_class:
                continue
            common = fit(family.names, kinds, of_class, table, PULL)
            result.classes.setdefault(name, {}).update(common)
            table = shared(table, kinds, common)
            near = {key: (common[key], *family.names[key][1:]) for key in common}
            for kind in kinds if len(kinds) > 1 else ():
                if own := [s for s in of_class if s.outer == kind]:
                    constants = fit(near, (kind,), own, table, PULL_TO_CLASS)
                    differing = {
                        key: v for key, v in constants.items() if abs(v / common[key] - 1) > SAME
                    }
                    result.kinds.setdefault(kind, {}).update(differing)
                    table = changed(table, kind, differing)
    return result


def errors(found: Sequence[Sample], table: Table) -> str:
    """Median over samples of the median absolute error, and the median bias, by size band."""
    texts = []
    high = np.inf
    for low, _ in BANDS:
        absolute, signed = [], []
        for sample in found:
            rows = (sample.nbytes >= low) & (sample.nbytes < high)
            if rows.any():
                error = predict(sample, table)[rows] / sample.seconds[rows] - 1
                absolute.append(float(np.median(np.abs(error))))
                signed.append(float(np.median(error)))
        if absolute:
            texts.append(
                f">={low / MiB:g}MiB {np.median(absolute):.3f} ({np.median(signed):+.3f}, {len(absolute)})"
            )
        high = low
    return "  ".join(texts)


def rewrite(text: str, fitted: Calibration) -> str:
    """The text of ``links.toml`` with the fitted constants in ``[like.NAME]`` and ``[kind.constants]``."""
    known = {name for family in FAMILIES for name in family.names}
    tables = {f"[like.{name}]": values for name, values in fitted.classes.items()}
    kinds = {kind: fitted.kinds.get(kind, {}) for members in CLASSES.values() for kind in members}
    tables |= {f"[{kind}.constants]": values for kind, values in kinds.items()}
    for head, values in tables.items():
        if head not in text:
            if not values:
                continue
            place = text.find(head.replace(".constants", ""))
            end = text.find("\n\n", max(place, 0)) if place >= 0 else len(text.rstrip())
            text = text[:end] + ("\n" if place >= 0 else "\n\n") + head + text[end:]
        start = text.index(head) + len(head)
        end = text.find("\n\n", start)
        end = len(text.rstrip()) if end < 0 else end
        lines = [x for x in text[start:end].split("\n") if x and x.split(" = ")[0] not in known]
        lines += [f"{name} = {value:g}" for name, value in values.items()]
        text = text[:start] + "".join(f"\n{x}" for x in lines) + text[end:]
    return text


def main(arguments: Sequence[str]) -> None:
    """Print fitted constants and errors; ``--cross`` leaves sources out in turn, ``--write`` updates links.toml."""
    path = next(a for a in arguments if not a.startswith("--"))
    found, table = samples(path), dict(link_kinds())
    write = sys.stdout.write
    write(f"{len(found)} groups, shipped: {errors(found, table)}\n")
    fitted = calibrate(found, table)
    write(f"fitted: {errors(found, fitted.table(table))}\n")
    if "--cross" in arguments:
        for source in sorted({s.label[0] for s in found}):
            rest = [s for s in found if s.label[0] != source]
            held = [s for s in found if s.label[0] == source]
            there = calibrate(rest, table).table(table)
            write(f"without {source[:50]}: {errors(held, there)}\n")
    if "--write" in arguments:
        target = Path(__file__).parents[2] / "topologies" / "links.toml"
        target.write_text(rewrite(target.read_text(encoding="utf-8"), fitted), encoding="utf-8")
        return
    for name, values in (fitted.classes | fitted.kinds).items():
        write(f"{name}: " + " ".join(f"{k}={v:g}" for k, v in values.items()) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
