"""DualPipeV ("cut in half" DualPipe): the same eight steps on a V, two chunks a rank, one copy.

Largest idle time of a rank (p-1)(F&B + B+W - 3W) in times of one stage of 2p, for F = B >= W;
memory 2p+1 chunk activations.
"""

from sim.errors import ScheduleError
from workloads.schedules.action import Orders
from workloads.schedules.dualpipe import eight_steps
from workloads.schedules.kind import Request

RULE = "at least 2p microbatches"


def check_dualpipev(request: Request) -> None:
    """Raise `ScheduleError` unless m is at least 2p."""
    p, m = request.num_ranks, request.num_microbatches
    if m < 2 * p:
        raise ScheduleError(
            f"dualpipev on stages={p} needs at least {2 * p} microbatches, not {m}; "
            f"choose microbatches={2 * p} or more"
        )


def dualpipev(request: Request) -> Orders:
    """Return every rank's order."""
    p = request.num_ranks
    return tuple(eight_steps(p, r, request.num_microbatches) for r in range(p))
