"""Plan check: whether a plan can run a model, and whether everything it asks for has an effect there."""

from collections.abc import Iterator
from math import lcm

from sim.errors import PlanError
from workloads.model import SOFTMAX_MIXERS, Model
from workloads.packing import BALANCES
from workloads.plan import Plan
from workloads.routing import UNIFORM
from workloads.schedules import SCHEDULES


def check(plan: Plan, model: Model) -> None:
    """Raise `PlanError` when the plan cannot run the model."""
    heads = model.num_heads
    if heads % plan.tp:
        raise PlanError(
            f"tp={plan.tp} does not divide num_heads={heads}; choose tp from {divisors(heads)}"
        )
    for field, word, heads in _mixer_heads(model):
        if heads % (plan.tp * plan.cp):
            raise PlanError(
                f"tp={plan.tp} x cp={plan.cp} does not divide {field}={heads}: {word} layers split heads over both; "
                f"choose tp x cp from {divisors(heads)}"
            )
    if model.ffn_size and model.ffn_size % plan.tp:
        raise PlanError(
            f"tp={plan.tp} does not divide ffn_size={model.ffn_size}; choose tp from {divisors(model.ffn_size)}"
        )
    _check_sequence(plan)
    slices = model.num_layers + 2
    if plan.num_stages > slices:
        raise PlanError(
            f"pp={plan.pp} x chunks={plan.chunks} = {plan.num_stages} stages, more than the {model.num_layers} layers "
            f"of {model.name} and its embedding and head; choose pp x chunks up to {slices}"
        )
    if plan.layout and (
        len(plan.layout) != plan.num_stages or sum(plan.layout) != model.num_layers
    ):
        raise PlanError(
            f"layout has {len(plan.layout)} stages and {sum(plan.layout)} layers; the plan has {plan.num_stages} "
            f"stages and the model {model.num_layers} layers"
        )
    for broken in (*_expert_rules(plan, model), *_idle_options(plan, model)):
        raise PlanError(broken)


def _check_sequence(plan: Plan) -> None:
    """Raise `PlanError` where a sequence cannot be cut over ranks."""
    zigzag = plan.ring_ranks > 1 and plan.context_balance == BALANCES[0]
    cut = plan.cp * (plan.tp if plan.sequence_parallel else 1)
    least = lcm(cut, 2 * plan.ring_ranks) if zigzag else cut
    if plan.seq_len % least:
        why = f" x tp={plan.tp} (sequence_parallel)" if plan.sequence_parallel else ""
        halves = f" in two pieces a rank (context_balance={BALANCES[0]!r})" if zigzag else ""
        low = plan.seq_len // least * least
        near = f"{low} or {low + least}" if low else str(least)
        rest = plan.seq_len // lcm(cut // plan.cp, 2 if zigzag else 1)
        legal = f"cp from {divisors(rest)}" if plan.seq_len % (cut // plan.cp) == 0 else "other tp"
        raise PlanError(
            f"cp={plan.cp}{why} does not divide seq_len={plan.seq_len}{halves}; choose seq_len {near}, or {legal}"
        )


def _mixer_heads(model: Model) -> Iterator[tuple[str, str, int]]:
    """Yield (field, kind, heads) of the mixers a model has beside attention."""
    kinds = {kind.attention for kind in model.layer_kinds}
    for word, field in (("mamba", "mamba_num_heads"), ("linear", "linear_num_key_heads")):
        if word in kinds:
            yield field, word, getattr(model, field)


def _expert_rules(plan: Plan, model: Model) -> Iterator[str]:
    """Yield what experts forbid."""
    experts, width = model.num_experts, model.expert_ffn_size
    if plan.ep > 1 and not experts:
        yield f"ep={plan.ep} but {model.name} has no experts; use ep=1"
    elif experts and experts % plan.ep:
        yield f"ep={plan.ep} does not divide num_experts={experts}; choose ep from {divisors(experts)}"
    if plan.etp > 1 and not experts:
        yield f"etp={plan.etp} but {model.name} has no experts; use etp=1"
    elif experts and width % plan.etp:
        yield f"etp={plan.etp} does not divide expert_ffn_size={width}; choose etp from {divisors(width)}"
    shared = model.shared_width
    if shared % plan.tp:
        yield f"tp={plan.tp} does not divide the shared experts' width {shared}; choose tp from {divisors(shared)}"
    bidirectional = SCHEDULES[plan.schedule].placement_kind == "bidir"
    pairs = plan.pp == 1 or bidirectional or "overlap" in SCHEDULES[plan.schedule].options
    if plan.overlap_ep == "on" and not pairs:
        yield (
            f"overlap_ep='on' with schedule={plan.schedule!r} on pp={plan.pp} has no forward to pair a backward with; "
            f"use schedule='interleaved' with chunks=2 or more, 'dualpipe', or pp=1"
        )


def _idle_options(plan: Plan, model: Model) -> Iterator[str]:
    """Yield options that would have no effect."""
    if plan.mtp and not model.num_mtp_layers:
        yield f"mtp=true but {model.name} has no multi-token-prediction layers; set num_mtp_layers or mtp=false"
    if plan.recompute_modules != ("core_attn",) and plan.recompute != "selective":
        yield (
            f"recompute_modules={list(plan.recompute_modules)} with recompute={plan.recompute!r} has no effect; set "
            f"recompute='selective'"
        )
    if "op" in plan.recompute_modules and len(plan.recompute_modules) > 1:
        yield f"recompute_modules={list(plan.recompute_modules)}: 'op' stands alone; name it, or the others"
    if plan.recompute != "full":
        for count, least in (
            ("recompute_layers", 0),
            ("recompute_every", 1),
            ("recompute_keeps", ()),
        ):
            if getattr(plan, count) != least:
                yield (
                    f"{count}={getattr(plan, count)} with recompute={plan.recompute!r} has no effect; set "
                    f"recompute='full', or {count}={least}"
                )
    for module, there in (
        ("mla_up_proj", model.is_mla), ("moe_act", model.is_moe), ("moe", model.is_moe),
        ("shared_experts", model.shared_width > 0),
    ):  # fmt: skip
        if module in plan.recompute_modules and not there:
            yield f"recompute_modules names {module!r}, which {model.name} does not have; leave it out"
    yield from _idle_context(plan, model)
    if not model.is_moe:
        for name, neutral in (
            ("routing", UNIFORM), ("capacity", 0.0), ("dispatcher", "auto"), ("dispatch_dtype", ""),
            ("pad_to_capacity", "auto"),
        ):  # fmt: skip
            if getattr(plan, name) != neutral:
                yield f"{name}={getattr(plan, name)!r} but {model.name} has no experts; leave it out"
    for name, there, need in (
        ("overlap_ep", plan.ep > 1, "ep above 1"),
        ("overlap_shared", plan.ep > 1 and model.shared_width > 0, "shared experts and ep above 1"),
    ):
        if getattr(plan, name) == "on" and not there:
            yield f"{name}='on' has no effect here: it needs {need}; use {name}='auto' or 'off'"
    for name, neutral in (("dispatcher", "auto"), ("dispatch_dtype", "")):
        value = getattr(plan, name)
        if model.is_moe and plan.ep == 1 and value != neutral:
            yield f"{name}={value!r} with ep=1 has no effect: tokens do not travel; use {name}={neutral!r}, or raise ep"


def _idle_context(plan: Plan, model: Model) -> Iterator[str]:
    """Yield options of a long context that would have no effect."""
    scored = any(kind.attention in SOFTMAX_MIXERS for kind in model.layer_kinds)
    if plan.documents and not scored:
        yield f"documents={plan.documents!r} but no layer of {model.name} computes attention scores; leave it out"
    if plan.document_seed and not plan.draws_documents:
        yield (
            f"document_seed={plan.document_seed} has no effect: it draws where documents stand in a sequence that lies "
            f"on several ranks, with documents={plan.documents!r}, cp={plan.cp}, context={plan.context!r}; use 0"
        )
    if plan.context_balance != BALANCES[0] and (plan.ring_ranks == 1 or not scored):
        yield (
            f"context_balance={plan.context_balance!r} with cp={plan.cp}, context={plan.context!r} has no effect: "
            f"every rank attends for whole sequences; use cp above 1 with context='ring' or 'all_gather', or 'zigzag'"
        )


def divisors(n: int) -> str:
    """Return the divisors of n, for a message (the first dozen)."""
    found = [d for d in range(1, n + 1) if n % d == 0]
    return ", ".join(map(str, found[:12])) + (", ..." if len(found) > 12 else "")
