"""Pipeline: where a plan's stages stand, and in which order each pipeline rank works."""

import re

from sim.errors import PlanError, ScheduleError
from workloads.chunk import Chunk, Known
from workloads.layers import Sizes
from workloads.layout import stage_contents
from workloads.model import Model
from workloads.pair import side_by_side
from workloads.pass_times import pass_times
from workloads.plan import Plan
from workloads.schedules import Orders, Placement, find_schedule


def pipeline(model: Model, plan: Plan) -> tuple[Placement, Orders]:
    """Return where the plan's stages stand and each pipeline rank's order of actions; raise `ScheduleError`."""
    kind = find_schedule(plan.schedule)
    chunks = plan.chunks if kind.any_chunks or plan.chunks > 1 else None
    placement = kind.placement(plan.pp, chunks)
    slices = model.num_layers + 2
    if placement.num_stages > slices:
        raise PlanError(
            f"schedule {kind.name} cuts pp={plan.pp} x {placement.chunks} chunks = {placement.num_stages} stages, "
            f"more than the {model.num_layers} layers of {model.name} and its embedding and head; choose pp up to "
            f"{slices // placement.chunks}"
        )
    times = None
    if kind.searched:
        contents, _ = stage_contents(model, plan, placement.num_stages)
        parts: Known = {}
        sizes = Sizes(model, plan)
        times = pass_times([Chunk(sizes, content, known=parts) for content in contents])
    try:
        orders = kind.generate(
            num_stages=plan.pp,
            num_microbatches=plan.num_microbatches,
            chunks=chunks,
            times=times,
            group_size=plan.group_size,
            overlap=plan.switch("overlap_ep") and "overlap" in kind.options,
        )
    except ScheduleError as problem:
        raise ScheduleError(_in_sequences(str(problem), plan)) from None
    if plan.switch("overlap_ep") and plan.pp == 1 and "overlap" not in kind.options:
        orders = tuple(side_by_side(order) for order in orders)
    return placement, orders


def _in_sequences(message: str, plan: Plan) -> str:
    """Let a schedule's advice on microbatches name what a plan sets, too."""
    replica = plan.dp * plan.microbatch

    def sequences(found: re.Match[str]) -> str:
        counts = [str(int(count) * replica) for count in found[1].split(" or ")]
        return f"choose microbatches={found[1]} (global_batch={' or '.join(counts)})"

    return re.sub(r"choose microbatches=(\d+(?: or \d+)*)", sequences, message)


def one_chunk(plan: Plan) -> tuple[str, ...]:
    """Say that a schedule of several chunks a rank got one."""
    kind = find_schedule(plan.schedule)
    if plan.pp == 1 or plan.chunks > 1 or not kind.any_chunks:
        return ()
    return (
        f"schedule {kind.name} runs with chunks=1; set plan.chunks={kind.default_chunks} or more to interleave",
    )
