"""The errors people meet, and what each says.

::

    SimError
    +-- InputError (ValueError)     a value breaks a rule: names the value, the rule and the way out
    |   +-- PlanError               degrees, batch, layout
    |   +-- ScheduleError           a schedule's own rule, or an illegal user schedule
    |   +-- TopologyError           a cluster that cannot be built or routed
    |   +-- CollectiveError         a collective that cannot run as asked
    |   +-- ProgramError            a malformed program (sizes that disagree, unknown group, ...)
    +-- DeadlockError (RuntimeError) nothing can run any more: names ranks, ops and peers
"""

from collections.abc import Iterable
from difflib import get_close_matches


class SimError(Exception):
    """Anything this project raises on purpose."""


class InputError(SimError, ValueError):
    """A value that breaks a rule."""


class PlanError(InputError):
    """A parallelism plan that cannot be."""


class ScheduleError(InputError):
    """A pipeline schedule whose rule is broken."""


class TopologyError(InputError):
    """A cluster that cannot be built or routed."""


class CollectiveError(InputError):
    """A collective that cannot run as asked."""


class ProgramError(InputError):
    """A malformed program."""


class DeadlockError(SimError, RuntimeError):
    """Nothing can run any more."""


def unknown(what: str, value: object, known: Iterable[str]) -> str:
    """Return the message for a name that does not exist, with near names first.

    >>> unknown("schedule", "1f1", ["1f1b", "gpipe"])
    "unknown schedule '1f1'; did you mean '1f1b'? Known: 1f1b, gpipe"
    """
    names = sorted(known)
    near = get_close_matches(str(value), names, n=3, cutoff=0.5)
    hint = f" did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    return f"unknown {what} {str(value)!r};{hint} Known: {', '.join(names)}"
