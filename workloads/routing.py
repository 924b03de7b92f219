"""Routing: how unevenly tokens go to experts, layer by layer: an input, never guessed.

``uniform``: every expert the mean. ``zipf:S``: the k-th most wanted expert gets k^-S of the first's tokens;
which experts those are differs by layer. ``file:PATH``: a histogram, one line of ``num_experts`` counts for
all layers or one a layer. ``draw:SEED`` or ``draw:SEED:ALPHA``: for each layer and microbatch, shares drawn
from a symmetric Dirichlet distribution.

A token goes to k different experts, so none gets more than a k-th of all copies: where a rule would have it get more,
the others share the excess as they share the rest; a histogram that has it get more is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sim.errors import PlanError, unknown

UNIFORM = "uniform"
ALPHA = 10.0
"""Concentration of a draw unless stated: the fullest of 64 experts gets about 1.8 times the mean, as under an auxiliary
loss (Wang et al. 2024, arXiv:2408.15664, table 2: MaxVio 0.72)."""
ABOVE_ZERO = "a concentration, which must be above 0, such as draw:7:10"

ROUNDING = 1e-9
"""How far above its cap a share may be by rounding."""


class Load(NamedTuple):
    """What one rank's experts get, over what balance would give: all of them (``here``), the fullest (``largest``).

    ``shares`` (ep,): the part of all token copies that each rank of the group gets; ``kept``: the part of them that no
    expert dropped, which is what ``here``, ``largest`` and ``shares`` are parts of.
    """

    here: float
    largest: float
    shares: tuple[float, ...]
    kept: float = 1.0


@dataclass(frozen=True, slots=True)
class Routing:
    """A rule of routing: ``kind`` and its argument."""

    kind: str
    argument: str

    @property
    def by_microbatch(self) -> bool:
        """Whether every microbatch is routed differently."""
        return self.kind == "draw"


def parse_routing(text: str) -> Routing:
    """Return the rule a plan states; raise `PlanError` if there is none of that name."""
    kind, _, argument = text.partition(":")
    if kind not in (UNIFORM, *_RULES):
        raise PlanError(unknown("routing", text, (UNIFORM, "zipf:S", "file:PATH", "draw:SEED")))
    if kind == UNIFORM and argument:
        raise PlanError(f"routing={text!r}: uniform takes no argument; leave {argument!r} out")
    if kind != UNIFORM:
        _RULES[kind](argument, 1, 0, 0)
    return Routing(kind, argument)


def expert_shares(
    text: str, num_experts: int, layer: int, microbatch: int = 0, chosen: int = 1
) -> np.ndarray:
    """Return the part of all token copies each expert of a layer gets: (num_experts,), summing to 1.

    ``chosen``: different experts a token goes to. Raises `PlanError` for a histogram no such choice can have.
    """
    routing = parse_routing(text)
    if routing.kind == UNIFORM:
        return np.full(num_experts, 1.0 / num_experts)
    shares = _RULES[routing.kind](routing.argument, num_experts, layer, microbatch)
    most = 1.0 / chosen
    if shares.max() <= most * (1.0 + ROUNDING):
        return shares
    if routing.kind == "file":
        raise PlanError(
            f"routing={text!r}: layer {layer} sends {shares.max():.1%} of its token copies to expert "
            f"{shares.argmax()}, but a token goes to experts_per_token={chosen} different ones, so none gets more than "
            f"{most:.1%}; lower that count to 1/{chosen} of its line's sum, or count copies rather than tokens"
        )
    return _levelled(shares, most)


def _levelled(shares: np.ndarray, most: float) -> np.ndarray:
    """Cap shares; those below the cap grow alike until all sum to 1 (the cap times their number is at least 1)."""
    full = np.zeros(len(shares), dtype=bool)
    found = shares
    while (found > most * (1.0 + ROUNDING)).any():
        full |= found > most
        rest = shares[~full].sum()
        left = max(1.0 - most * full.sum(), 0.0)
        grown = shares * (left / rest) if rest > 0 else np.full(len(shares), left)
        found = np.where(full, most, grown)
    return found


def rank_loads(
    shares: np.ndarray, ep: int, capacity: float = 0.0, *, padded: bool = False
) -> tuple[Load, ...]:
    """Return the load of every rank of an expert-parallel group: experts in order, equally many a rank.

    ``capacity`` > 0 drops what an expert gets above that many times the mean; ``padded`` fills up what is below, so
    that all are equal.
    """
    ratio = shares * len(shares)
    if capacity:
        ratio = np.minimum(ratio, capacity)
    kept = float(ratio.mean())
    ratio = np.ones_like(ratio) if padded else ratio / kept
    by_rank = ratio.reshape(ep, -1)
    here = by_rank.mean(axis=1)
    parts = tuple((here / here.sum()).tolist())
    return tuple(
        Load(float(h), float(most), parts, kept)
        for h, most in zip(here, by_rank.max(axis=1), strict=True)
    )


def _zipf(argument: str, num_experts: int, layer: int, microbatch: int) -> np.ndarray:
    exponent = _number("zipf", argument, "the exponent, which must be 0 or more, such as zipf:0.5")
    weights = np.arange(1, num_experts + 1, dtype=float) ** -exponent
    order = np.random.default_rng(layer).permutation(num_experts)
    return np.asarray((weights / weights.sum())[order])


def _draw(argument: str, num_experts: int, layer: int, microbatch: int) -> np.ndarray:
    seed, _, alpha = argument.partition(":")
    if not seed.isdigit():
        raise PlanError(f"routing='draw:{argument}' needs a whole number as seed, such as draw:7")
    concentration = _number(f"draw:{seed}", alpha, ABOVE_ZERO) if alpha else ALPHA
    if not concentration:
        raise PlanError(f"routing='draw:{argument}' needs {ABOVE_ZERO}")
    random = np.random.default_rng((int(seed), layer, microbatch))
    return np.asarray(random.dirichlet(np.full(num_experts, concentration)))


def _file(argument: str, num_experts: int, layer: int, microbatch: int) -> np.ndarray:
    table = _table(argument)
    if num_experts == 1:
        return np.ones(1)
    if table.shape[1] != num_experts:
        raise PlanError(
            f"routing='file:{argument}' has {table.shape[1]} columns; give num_experts={num_experts} counts a line"
        )
    if len(table) > 1 and layer >= len(table):
        raise PlanError(
            f"routing='file:{argument}' has {len(table)} lines, but layer {layer} is a mixture: one line for "
            f"all layers, or one for each layer of the model"
        )
    row = table[layer if len(table) > 1 else 0]
    return np.asarray(row / row.sum())


@lru_cache(maxsize=8)
def _table(path: str) -> np.ndarray:
    try:
        lines = [
            line for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()
        ]
        table = np.array([[float(v) for v in line.replace(",", " ").split()] for line in lines])
    except OSError as problem:
        raise PlanError(
            f"routing='file:{path}': {problem.strerror}; give the path of a histogram"
        ) from problem
    except ValueError as problem:
        raise PlanError(
            f"routing='file:{path}': {problem}; write one line of numbers a layer, equally many in each"
        ) from problem
    if table.ndim != 2 or (table < 0).any() or not (table.sum(axis=1) > 0).all():
        raise PlanError(
            f"routing='file:{path}' needs counts of 0 or more, some above 0 in every line"
        )
    return table


def _number(kind: str, text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise PlanError(f"routing='{kind}:{text}' needs {what}")
    return value


_RULES: dict[str, Callable[[str, int, int, int], np.ndarray]] = {
    "zipf": _zipf,
    "file": _file,
    "draw": _draw,
}
