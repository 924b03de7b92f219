"""Interleaved 1F1B (Narayanan et al., arXiv:2104.04473): v chunks a rank, groups of N.

N microbatches pass chunk 0, the same N chunk 1, ...; the backward walks chunks downwards. Rank r
warms up with 2(p-1-r) + (v-1)N forwards, then alternates. Bubble (p-1)(F+B+W)/v for m >= p; peak
[2(p-1-r) + (v-1)N + 1]/v microbatches of the rank's share.

N is p where p divides m; else the m microbatches go in max(1, m // p) equal rounds (torch's rule),
or N is given (Megatron-LM's ``microbatch_group_size``: p <= N <= m, and m mod N is 0 or at least
p).

With ``overlap`` the warm-up is one longer and the steady phase is overlapped pairs: a forward runs
beside the backward of another microbatch and hides its all-to-all (Megatron-LM's expert-parallel
overlap).
"""

from sim.errors import ScheduleError
from workloads.schedules.action import Entry, Order, Orders, backward, forward
from workloads.schedules.kind import Request

RULE = (
    "the microbatches must go in max(1, m // p) equal rounds; or give group_size N from p to m "
    "with m mod N 0 or at least p"
)


def check_groups(request: Request) -> None:
    """Raise `ScheduleError` unless the microbatches can be grouped."""
    p, m, given = request.num_ranks, request.num_microbatches, request.group_size
    if not given:
        if m % _rounds(p, m):
            sizes = [n for n in range(min(p, m), m + 1) if m % n == 0 or m % n >= p]
            below = next(k for k in range(m, 0, -1) if k % _rounds(p, k) == 0)
            above = next(k for k in range(m, 2 * m + p) if k % _rounds(p, k) == 0)
            raise ScheduleError(
                f"microbatches={m} on stages={p} do not go in {_rounds(p, m)} equal rounds of at "
                f"least {p}; choose microbatches={below} or {above}, or group_size={_some(sizes)}"
            )
        return
    if not min(p, m) <= given <= m or 0 < m % given < p:
        sizes = [n for n in range(min(p, m), m + 1) if m % n == 0 or m % n >= p]
        sizes.sort(key=lambda n: abs(n - given))
        raise ScheduleError(
            f"group_size={given} does not fit microbatches={m} on stages={p}: it must be "
            f"from {min(p, m)} to {m} and leave a remainder of 0 or at least {p}; "
            f"choose group_size={_some(sizes)}"
        )


def _some(sizes: list[int]) -> str:
    return " or ".join(map(str, sizes[:3]))


def _rounds(p: int, m: int) -> int:
    return max(1, m // p)


def group_size(request: Request) -> int:
    """Return N, the microbatches that pass a chunk before the next."""
    m = request.num_microbatches
    return request.group_size or m // _rounds(request.num_ranks, m)


def walks(request: Request) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the (chunk, microbatch) sequences of every rank's forwards and of its backwards."""
    m, v, n = request.num_microbatches, request.chunks, group_size(request)
    groups = [range(start, min(start + n, m)) for start in range(0, m, n)]
    down = [(c, i) for group in groups for c in range(v) for i in group]
    up = [(c, i) for group in groups for c in reversed(range(v)) for i in group]
    return down, up


def interleaved(request: Request) -> Orders:
    """Return every rank's order: warm-up forwards, F BW (or overlapped pairs), remaining BW."""
    return tuple(_order(request, rank) for rank in range(request.num_ranks))


def _order(request: Request, rank: int) -> Order:
    down, up = walks(request)
    total = len(down)
    warmup = 2 * (request.num_ranks - 1 - rank) + (request.chunks - 1) * group_size(request)
    warmup = min(warmup + request.overlap, total)
    entries: list[Entry] = [forward(*at) for at in down[:warmup]]
    for k in range(warmup, total):
        pair = [forward(*down[k]), backward(*up[k - warmup])]
        entries += [pair[0] + pair[1]] if request.overlap else pair
    entries += [backward(*at) for at in up[total - warmup :]]
    return tuple(entries)
