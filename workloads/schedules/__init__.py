"""Pipeline schedules as data: one file each, one line in `SCHEDULES`."""

from sim.errors import ScheduleError, unknown
from workloads.schedules.action import Entry, Order, Orders, Token
from workloads.schedules.bfs import bfs
from workloads.schedules.gpipe import gpipe
from workloads.schedules.interleaved import RULE as INTERLEAVED_RULE
from workloads.schedules.interleaved import check_groups, interleaved
from workloads.schedules.kind import Request, ScheduleKind, Times
from workloads.schedules.naive import naive
from workloads.schedules.one_f_one_b import one_f_one_b
from workloads.schedules.placement import Placement

__all__ = [
    "SCHEDULES",
    "Entry",
    "Order",
    "Orders",
    "Placement",
    "Request",
    "ScheduleKind",
    "Times",
    "Token",
    "find_schedule",
]

_KINDS = (
    ScheduleKind(name="naive", orders=naive),
    ScheduleKind(name="gpipe", orders=gpipe),
    ScheduleKind(name="1f1b", orders=one_f_one_b),
    ScheduleKind(
        name="interleaved",
        orders=interleaved,
        default_chunks=2,
        any_chunks=True,
        rule=check_groups,
        rule_text=INTERLEAVED_RULE,
        options=("group_size", "overlap"),
    ),
    ScheduleKind(name="bfs", orders=bfs, default_chunks=2, any_chunks=True),
)

SCHEDULES: dict[str, ScheduleKind] = {kind.name: kind for kind in _KINDS}
"""Every schedule that ships, by name."""


def find_schedule(name: str) -> ScheduleKind:
    """Return the schedule of that name; raise `ScheduleError` with near names."""
    if name not in SCHEDULES:
        raise ScheduleError(unknown("schedule", name, SCHEDULES))
    return SCHEDULES[name]
