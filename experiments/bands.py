"""Bands: how far measured step times lie from predicted ones, by category of run.

Spread of measured over predicted on half of the sources (`FIT`), whole sources, written by
`experiments.calibration.bands`; the other half says how many rows the band holds. ``low`` and ``high`` are the 10 %
and 90 % quantiles, each family of as much weight; ``order`` is the spread (robust standard deviation of logarithms)
between runs of one model on one hardware, which is what a comparison of two plans has to go by: what a prediction gets
wrong for both cancels.
"""

import csv
from dataclasses import dataclass
from functools import cache
from math import erf, log, sqrt
from pathlib import Path

from experiments.runfile import RunConfig
from experiments.score_sets import category

FILE = Path(__file__).parent / "data" / "bands.csv"
FIT = (
    "aws-titan", "dgxc", "ds-azure", "ds-zeropp", "dsv3-gb200-opt", "folding", "fsdp-paper", "ironwood", "korthi-t4",
    "levanter", "llama1", "maxtext", "mbridge", "mbridge-sft", "mindspeed", "mindspeed-mfu", "mlm-h100-weak",
    "mlperf-405b", "mlperf-gpt3", "mpt", "nemo", "nemo-long", "opt", "primus", "sc21-t2", "tinyllama", "tpurecipe",
    "vtrain-multi",
)  # fmt: skip
"""Families of sources whose rows the bands are fitted on, every second by name; the others validate them."""


@dataclass(frozen=True, slots=True)
class Band:
    """Measured over predicted: ``low`` and ``high`` hold 80 %; ``order`` the spread of its logarithm within a model."""

    low: float
    high: float
    order: float


@cache
def bands() -> dict[str, Band]:
    """Return the band of each category, and of all (``""``)."""
    with FILE.open(newline="", encoding="utf-8") as file:
        return {
            row["category"]: Band(float(row["low"]), float(row["high"]), float(row["order"]))
            for row in csv.DictReader(file)
        }


def band(category: str) -> Band:
    """Return the band of a category; one without measurements has that of all."""
    known = bands()
    return known.get(category, known[""])


def category_of(config: RunConfig) -> str:
    """Return the category of a run, as `experiments.score_sets.category` of a row."""
    row = {
        "hardware": config.cluster.preset,
        "gpus": str(config.cluster.num_devices),
        "n_experts": str(config.model.num_experts),
    }
    return category(row)


def likelihood(first: float, second: float, spread: float) -> float:
    """Return how likely the run predicted to take ``first`` seconds is the faster of the two.

    Errors are taken as normal in the logarithm and independent, each with ``spread``: Phi(ln(b/a) / (s sqrt 2)).

    >>> likelihood(1.0, 1.0, 0.1), round(likelihood(1.0, 1.1, 0.05), 3)
    (0.5, 0.911)
    """
    distance = log(second / first) / (spread * sqrt(2.0))
    return 0.5 * (1.0 + erf(distance / sqrt(2.0)))
