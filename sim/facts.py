"""Facts of an op, for people: its kind, shape, FLOPs, bytes, group, algorithm and slowest link."""

from collections.abc import Mapping
from dataclasses import fields

from sim.collectives.phase import CollectivePlan
from sim.program import Action, Collective, Compute, Op, Recv, Send
from sim.timeline import Timeline

Plans = Mapping[tuple[int, int], CollectivePlan]
"""How each communication runs, by (rank class, id of the op)."""
Facts = dict[str, str | float]


def plans_of(timeline: Timeline) -> Plans:
    """Return the plan of every collective and message that was played."""
    return {
        (rank_class, id(step.op)): step.plan
        for step in timeline.communications
        if step.plan is not None
        for rank_class in step.classes
    }


def op_facts(timeline: Timeline, plans: Plans, rank_class: int, op: Op) -> Facts:
    """Return what is known of an op of a rank class before it runs."""
    match op:
        case Compute():
            return {
                "op": getattr(op.kernel, "kind", type(op.kernel).__name__.lower()),
                "shape": shape(op.kernel),
                "phase": op.phase,
                "flops": op.kernel.flops,
                "bytes": op.kernel.nbytes,
            }
        case Collective():
            size = timeline.program.groups[op.axis].shape[1]
            found: Facts = {
                "op": op.kind,
                "axis": op.axis,
                "group": size,
                "phase": op.phase,
                "bytes": op.nbytes,
            }
            return {**found, **_plan_facts(timeline, plans.get((rank_class, id(op))))}
        case Send():
            to = timeline.program.peers[op.channel][timeline.folding.representative[rank_class]]
            found = {
                "op": "send",
                "axis": op.channel,
                "to rank": int(to),
                "phase": op.phase,
                "bytes": op.nbytes,
            }
            return {**found, **_plan_facts(timeline, plans.get((rank_class, id(op))))}
        case Recv():
            return {"op": "recv", "axis": op.channel, "phase": op.phase, "bytes": op.nbytes}
        case _:
            return {"op": type(op).__name__.lower()}


def _plan_facts(timeline: Timeline, plan: CollectivePlan | None) -> Facts:
    if plan is None:
        return {}
    found: Facts = {"algorithm": " ".join(word for word in (plan.algorithm, plan.protocol) if word)}
    slowest = max(plan.phases, key=lambda phase: phase.alone, default=None)
    if slowest is not None and slowest.bottleneck >= 0:
        cluster = timeline.cluster
        kind = cluster.link_kinds[int(cluster.links.kind[slowest.bottleneck])].name
        found["link"] = f"{cluster.link_name(slowest.bottleneck)} ({kind})"
    return found


def shape(kernel: object) -> str:
    """Return the sizes of a kernel in a line: ``m=8192 n=3328 k=16384 bf16``.

    >>> from sim.kernels.shapes import Gemm
    >>> shape(Gemm(8, 4, 2))
    'm=8 n=4 k=2 bf16'
    """
    words, dtype = [], ""
    for field in fields(kernel):  # type: ignore[arg-type]  # every kernel shape is a dataclass
        value = getattr(kernel, field.name)
        if field.name == "dtype":
            dtype = value
        elif value != field.default and field.name not in ("kind", "nbytes", "flops"):
            words.append(
                f"{field.name}={value:.6g}" if isinstance(value, float) else f"{field.name}={value}"
            )
    return " ".join([*words, dtype]).strip()


def action_facts(action: Action) -> Facts:
    """Return the parts of an action that are set."""
    parts = {"stage": action.stage, "chunk": action.chunk, "microbatch": action.microbatch}
    return {"action": action.kind, **{name: value for name, value in parts.items() if value >= 0}}
