"""Regime: latency and rate of a stage under one protocol (LL, LL128, Simple), and the time they give.

A transfer of S bytes takes ``hops + (base**p + x**p) ** (1 / p)`` with ``x = S / rate``: hops is the sum of its steps'
latencies; p = 1 is alpha-beta, p below 1 (`ramp`) the slow ramp of a kernel whose channels and chunks grow with the
message. Protocols: NCCL's LL sends 4 bytes of flag with 4 of data, LL128 8 with 120, Simple whole chunks with a fence
(NVIDIA/nccl src/graph/tuning.cc).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.cluster import LinkKind

PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "ring": ("Simple", "LL", "LL128"),
    "tree": ("Simple", "LL", "LL128"),
}
"""Protocols a rule can run; one, ``Simple``, for every other rule."""


INSIDE: Mapping[str, str] = {"nvls_tree": "nvls", "sharp": "nvls"}
"""The rule whose constants a rule over several domains takes on the links inside one."""


@dataclass(frozen=True, slots=True)
class Regime:
    """One protocol on one stage: seconds to start, seconds of its hops, bytes/s of the collective, ramp exponent.

    ``rate`` is what one group reaches alone; ``shared`` what the links allow when all groups run at once.
    ``slow`` and ``plateau``: below ``rate * plateau`` bytes the transfer has few channels and runs at ``slow`` times
    the rate until it has taken ``plateau`` seconds (NCCL's send/recv).
    """

    protocol: str
    base: float
    hops: float
    rate: float
    ramp: float = 1.0
    slow: float = 1.0
    plateau: float = 0.0
    shared: float = math.inf

    @property
    def ceiling(self) -> float:
        """Bytes/s with all groups at once."""
        return min(self.rate, self.shared)

    def seconds(self, nbytes: float) -> float:
        """Time of ``nbytes``, all groups at once, on an otherwise idle machine."""
        return self.latency(nbytes) + nbytes / self.ceiling

    def alone(self, nbytes: float) -> float:
        """Time of ``nbytes`` of one group on an idle machine: what a library chooses by."""
        return self.latency(nbytes) + nbytes / self.rate

    def latency(self, nbytes: float) -> float:
        """Time over that of the bytes at full rate; a group's own, whatever others do."""
        full = x = nbytes / self.rate
        if self.plateau and x < self.plateau:
            x = min(x / self.slow, self.plateau)
        if self.ramp == 1.0 or self.base <= 0.0:
            return self.base + self.hops + x - full
        ramped = self.base * (1.0 + (x / self.base) ** self.ramp) ** (1.0 / self.ramp)
        return float(self.hops + ramped - full)


def constant(
    kind: LinkKind, name: str, rule: str, collective: str, protocol: str, default: float = 0.0
) -> float:
    """A constant of a link kind, the most particular name first.

    ``ring_all_gather_ll_step``, ``ring_all_gather_step``, ``all_gather_ll_step``, ..., ``ll_step``, ``step``.
    """
    table = kind.constants
    p = protocol.lower()
    scopes = [f"{rule}_{collective}_", f"{collective}_", f"{rule}_", ""]
    if rule in INSIDE:
        scopes.insert(3, f"{INSIDE[rule]}_")
    for prefix in (s + q for s in scopes for q in (f"{p}_", "")):
        if (value := table.get(prefix + name)) is not None:
            return value
    return default


def regimes(
    rule: str,
    collective: str,
    levels: Sequence[tuple[LinkKind, float, float]],
    ceilings: Sequence[tuple[LinkKind, float]],
    shared: float = math.inf,
) -> list[Regime]:
    """Price a stage under every protocol of its rule.

    ``levels``: (link kind, hops, seconds a hop on the wire) of each level, outermost last; ``ceilings``: bytes/s that
    the links of each kind allow one group, of which the algorithm reaches its efficiency; ``shared``: all groups.
    Base latency and ramp are the outermost kind's.
    """
    outer = levels[-1][0]
    result = []
    for protocol in PROTOCOLS.get(rule, ("Simple",)):
        if protocol != "Simple" and f"{protocol.lower()}_step" not in outer.constants:
            continue

        def look(name: str, default: float, kind: LinkKind = outer, p: str = protocol) -> float:
            return constant(kind, name, rule, collective, p, default)

        hops = sum(steps * (wire + look("step", 0.0, kind)) for kind, steps, wire in levels)
        rate = min(bound * look("efficiency", 1.0, kind) for kind, bound in ceilings)
        share, ramp = look("rate", 1.0), look("ramp", 1.0)
        slow, plateau = look("slow", 1.0), look("plateau", 0.0)
        result.append(
            Regime(protocol, look("base", 0.0), hops, rate * share, ramp, slow, plateau, shared)
        )
    return result
