"""One collective on a cluster, as nccl-tests reports it: time, algbw, busbw; or its table over sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.cluster import Cluster
from sim.collectives import CollectivePlan, Communicator
from sim.engine import FIDELITIES
from sim.errors import InputError, unknown
from sim.rounds import play_rounds
from sim.units import GB, KILO, GiB, us

FLOAT_BYTES = 4
BUS_FACTOR: Mapping[str, tuple[float, float]] = {
    "all_reduce": (2.0, -2.0),
    "all_gather": (1.0, -1.0),
    "reduce_scatter": (1.0, -1.0),
    "all_to_all": (1.0, -1.0),
    "gather": (1.0, -1.0),
    "scatter": (1.0, -1.0),
}
"""busbw / algbw is a + b / n (NVIDIA/nccl-tests doc/PERFORMANCE.md); 1 for the kinds not listed."""
REDUCES = frozenset({"all_reduce", "reduce_scatter", "reduce"})
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})


def bus_factor(kind: str, n: int) -> float:
    """Bus bandwidth over algorithm bandwidth of ``kind`` on ``n`` devices."""
    constant, per_member = BUS_FACTOR.get(kind, (1.0, 0.0))
    return constant + per_member / n


def collective(
    kind: str,
    cluster: Cluster,
    nbytes: float,
    algorithm: str = "auto",
    fidelity: str = "activity",
) -> dict[str, Any]:
    """Time ``kind`` of ``nbytes`` over every device of the cluster.

    Returns seconds (``time_s``, of which ``latency_s`` and ``bandwidth_s``), bytes/s, the algorithm and protocol
    chosen, and the most loaded link. ``fidelity="rounds"`` plays every transfer of the algorithm. Raises
    `CollectiveError` for what cannot run.
    """
    plan = _all_devices(cluster).plan(kind, nbytes, algorithm)
    return _report(kind, cluster, nbytes, plan, _seconds(cluster, plan, nbytes, fidelity))


def sweep(
    kind: str,
    cluster: Cluster,
    algorithm: str = "auto",
    smallest: float = 8.0,
    largest: float = 16 * GiB,
    fidelity: str = "activity",
) -> list[dict[str, Any]]:
    """Time ``kind`` at every power of two of bytes: rows in the columns of nccl-tests, then the choice made."""
    communicator = _all_devices(cluster)
    rows = []
    nbytes = smallest
    while nbytes <= largest:
        plan = communicator.plan(kind, nbytes, algorithm)
        row = _report(kind, cluster, nbytes, plan, _seconds(cluster, plan, nbytes, fidelity))
        bandwidths = (row["algbw_Bps"] / GB, row["busbw_Bps"] / GB)
        rows.append(
            {
                "size": int(nbytes),
                "count": max(1, int(nbytes) // FLOAT_BYTES // _shares(kind, cluster.num_devices)),
                "type": "float",
                "redop": "sum" if kind in REDUCES else "none",
                "root": 0 if kind in ROOTED else -1,
                **dict(
                    zip(
                        ("time_us", "algbw_GBps", "busbw_GBps"),
                        (row["time_s"] / us, *bandwidths),
                        strict=True,
                    )
                ),
                "algorithm": row["algorithm"],
                "protocol": row["protocol"],
                "bottleneck": row["bottleneck"],
            }
        )
        nbytes *= 2
    return rows


def nccl_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of `sweep` as nccl-tests prints them, out of place and in place alike (the model knows one time)."""
    top = f"# {'out-of-place':>74} {'in-place':>33}"
    names = ("time", "algbw", "busbw", "#wrong")
    heads = f"# {'size':>10} {'count':>12} {'type':>8} {'redop':>7} {'root':>6}"
    units = f"# {'(B)':>10} {'(elements)':>12} {'':>8} {'':>7} {'':>6}"
    for _ in range(2):
        heads += "".join(f" {name:>7}" for name in names)
        units += "".join(f" {unit:>7}" for unit in ("(us)", "(GB/s)", "(GB/s)", ""))
    lines = [top, heads, units]
    for r in rows:
        times = f" {_short(r['time_us'])} {r['algbw_GBps']:7.2f} {r['busbw_GBps']:7.2f} {0:>7}"
        lines.append(
            f"{r['size']:>12} {r['count']:>12} {r['type']:>8} {r['redop']:>7} {r['root']:>6}{times}{times}"
        )
    return "\n".join(lines)


def _short(time_us: float) -> str:
    digits = 2 if time_us < 100 else 1 if time_us < 10 * KILO else 0
    return f"{time_us:7.{digits}f}"


def _shares(kind: str, n: int) -> int:
    """Elements nccl-tests counts are a rank's share for the kinds that gather or scatter."""
    return n if kind in {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"} else 1


def _all_devices(cluster: Cluster) -> Communicator:
    return Communicator(cluster, np.arange(cluster.num_devices))


def _seconds(cluster: Cluster, plan: CollectivePlan, nbytes: float, fidelity: str) -> float:
    """The plan's time as one activity, or with every transfer of the algorithm it chose played."""
    if fidelity not in FIDELITIES:
        raise InputError(unknown("fidelity", fidelity, FIDELITIES))
    if fidelity == "activity" or not plan.phases:
        return plan.alone
    return play_rounds(cluster, np.arange(cluster.num_devices), plan.kind, nbytes, plan.algorithm)


def _report(
    kind: str, cluster: Cluster, nbytes: float, plan: CollectivePlan, time: float
) -> dict[str, Any]:
    latency = sum(phase.latency for phase in plan.phases)
    algbw = nbytes / time if time else 0.0
    slowest = max(plan.phases, key=lambda phase: phase.alone, default=None)
    return {
        "kind": kind,
        "cluster": cluster.name,
        "num_devices": cluster.num_devices,
        "nbytes": nbytes,
        "time_s": time,
        "latency_s": latency,
        "bandwidth_s": time - latency,
        "algbw_Bps": algbw,
        "busbw_Bps": algbw * bus_factor(kind, cluster.num_devices),
        "algorithm": plan.algorithm,
        "protocol": plan.protocol,
        "bottleneck": cluster.link_name(slowest.bottleneck) if slowest else "none",
    }
