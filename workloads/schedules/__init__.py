"""Pipeline schedules as data: one file each, one line in `SCHEDULES`."""

from sim.errors import ScheduleError, unknown
from workloads.schedules.action import Entry, Order, Orders, Token
from workloads.schedules.bfs import bfs
from workloads.schedules.dualpipe import RULE as DUALPIPE_RULE
from workloads.schedules.dualpipe import check_dualpipe, dualpipe
from workloads.schedules.dualpipev import RULE as DUALPIPEV_RULE
from workloads.schedules.dualpipev import check_dualpipev, dualpipev
from workloads.schedules.gpipe import gpipe
from workloads.schedules.interleaved import RULE as INTERLEAVED_RULE
from workloads.schedules.interleaved import check_groups, interleaved
from workloads.schedules.interleaved_zb import interleaved_zb
from workloads.schedules.kind import Request, ScheduleKind, Times
from workloads.schedules.naive import naive
from workloads.schedules.one_f_one_b import one_f_one_b
from workloads.schedules.placement import Placement
from workloads.schedules.v_half import v_half
from workloads.schedules.v_min import v_min
from workloads.schedules.zb_auto import zb_1p, zb_2p
from workloads.schedules.zb_h1 import zb_h1
from workloads.schedules.zb_h2 import zb_h2
from workloads.schedules.zb_v import zb_v
from workloads.schedules.zb_v_greedy import zb_v_greedy

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
    ScheduleKind(name="zb-h1", orders=zb_h1, split_backward=True),
    ScheduleKind(name="zb-h2", orders=zb_h2, split_backward=True),
    ScheduleKind(
        name="zb-1p",
        orders=zb_1p,
        split_backward=True,
        options=("memory_limit", "weight_memory"),
        searched=True,
    ),
    ScheduleKind(
        name="zb-2p",
        orders=zb_2p,
        split_backward=True,
        options=("memory_limit", "weight_memory"),
        searched=True,
    ),
    ScheduleKind(
        name="interleaved-zb",
        orders=interleaved_zb,
        split_backward=True,
        default_chunks=2,
        any_chunks=True,
        rule=check_groups,
        rule_text=INTERLEAVED_RULE,
        options=("group_size",),
    ),
    ScheduleKind(
        name="zb-v", orders=zb_v, placement_kind="v", split_backward=True, default_chunks=2
    ),
    ScheduleKind(
        name="zb-v-greedy",
        orders=zb_v_greedy,
        placement_kind="v",
        split_backward=True,
        default_chunks=2,
        options=("memory_limit", "weight_memory"),
        searched=True,
    ),
    ScheduleKind(
        name="v-half",
        orders=v_half,
        placement_kind="v",
        split_backward=True,
        default_chunks=2,
        searched=True,
    ),
    ScheduleKind(
        name="v-min",
        orders=v_min,
        placement_kind="v",
        split_backward=True,
        default_chunks=2,
        searched=True,
    ),
    ScheduleKind(
        name="dualpipe",
        orders=dualpipe,
        placement_kind="bidir",
        split_backward=True,
        default_chunks=2,
        rule=check_dualpipe,
        rule_text=DUALPIPE_RULE,
    ),
    ScheduleKind(
        name="dualpipev",
        orders=dualpipev,
        placement_kind="v",
        split_backward=True,
        default_chunks=2,
        rule=check_dualpipev,
        rule_text=DUALPIPEV_RULE,
    ),
)

SCHEDULES: dict[str, ScheduleKind] = {kind.name: kind for kind in _KINDS}
"""Every schedule that ships, by name."""


def find_schedule(name: str) -> ScheduleKind:
    """Return the schedule of that name; raise `ScheduleError` with near names."""
    if name not in SCHEDULES:
        raise ScheduleError(unknown("schedule", name, SCHEDULES))
    return SCHEDULES[name]
