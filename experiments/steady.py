"""Steady state: the step time of many microbatches from two replays of fewer.

Schedules that repeat (1F1B, interleaved, plain accumulation) add the same time for each further
round of microbatches once the pipeline is full; so a step of m microbatches lasts T(m1) + (m - m1)
(T(m1) - T(m0)) / (m1 - m0), where m0 fills the pipeline. Against whole replays: within 1e-6. Peak
memory is that of m1.
"""

from dataclasses import dataclass, replace

from experiments.runfile import RunConfig
from workloads.plan import Plan

REPEATING = ("1f1b", "interleaved")
"""Schedules whose rounds of pp microbatches are all alike."""
FILLED = 1
"""Rounds that fill a pipeline; the shorter replay has as many, the longer one more (a single rank: one more each)."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Two shorter runs, and ``weight``: T = T(longer) + weight x (T(longer) - T(shorter))."""

    shorter: RunConfig
    longer: RunConfig
    weight: float

    def extend(self, shorter: float, longer: float) -> float:
        """Return the value of the whole step from those of the two runs.

        >>> Steady(None, None, 7.0).extend(2.0, 3.0)
        10.0
        """
        return longer + self.weight * (longer - shorter)


def steady(config: RunConfig) -> Steady | None:
    """Return the two shorter runs of a step whose middle repeats, or None where replaying it whole costs no more."""
    plan = config.plan
    rounds = FILLED if plan.pp > 1 else FILLED + 1
    low, high = rounds * plan.pp, (rounds + 1) * plan.pp
    if (
        plan.schedule not in REPEATING
        or plan.num_microbatches <= low + high
        or plan.draws_documents
    ):
        return None
    rest = plan.num_microbatches - high
    return Steady(_with(config, low), _with(config, high), rest / (high - low))


def _with(config: RunConfig, microbatches: int) -> RunConfig:
    plan: Plan = replace(
        config.plan, global_batch=microbatches * config.plan.dp * config.plan.microbatch
    )
    return replace(config, plan=plan)
