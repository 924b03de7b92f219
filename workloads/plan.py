"""Plan: how a model is spread over devices and time."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import prod

from sim.errors import PlanError, unknown
from sim.kernels.shapes import DTYPE_BYTES
from workloads.model import Model
from workloads.routing import UNIFORM, parse_routing
from workloads.schedules import SCHEDULES
from workloads.software import SOFTWARE

RECOMPUTE = ("none", "selective", "full")
CONTEXT = ("all_gather", "ring", "ulysses")
TRAINING_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "nvfp4", "int8")
ATTENTION = ("auto", "unfused", "fa1", "fa2", "fa3", "fa4", "cudnn", "triton", "te", "xla")
SWITCH = ("auto", "on", "off")
LOSSES = ("auto", "vocab_parallel", "eager", "compiled", "chunked")
OFFLOADS = ("activations", "optimizer")
DISPATCHERS = ("auto", "alltoall", "allgather", "deepep")
DISPATCH_DTYPES = ("", "fp8")
MODULES = ("core_attn", "mla_up_proj", "norm", "mlp", "moe_act", "moe", "shared_experts", "op")
"""What selective recomputation can repeat, named as Megatron-Core's ``recompute_modules`` (``norm``: ``layernorm``);
``op``: as torchtitan's per-op option: all but attention and every other product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Degrees, batch, schedule and switches of one training step.

    Degrees: ``tp cp pp dp`` multiply to the number of devices; ``ep`` x ``etp`` experts' degrees divide tp x cp x dp.
    ``chunks`` model chunks a pipeline rank; ``global_batch`` and ``microbatch`` in sequences of ``seq_len``.
    ``zero`` 0 (DDP), 1 (optimizer states), 2 (gradients), 3 (parameters, FSDP); ``shard`` > 0 shards over groups
    of that many data-parallel ranks only (HSDP); ``reshard`` drops gathered parameters after forward (ZeRO-3).
    ``recompute`` none, selective (of ``recompute_modules``: core_attn, mla_up_proj, norm, mlp, moe_act, moe,
    shared_experts, op), full; ``recompute_layers`` > 0 limits full recompute to the first so many layers of a chunk,
    ``recompute_every`` > 1 to one layer in so many. ``context`` is how attention spans ``cp``. ``layout``: layers of
    each stage, in stage order (``()``: even, see `workloads.layout`). ``order``: axes from fastest-varying rank to
    slowest. ``attention`` names the kernel of the attention core. Switches set to ``auto`` follow ``software``.
    ``loss``: how cross-entropy holds logits (see `workloads.software`; ``chunked``: never whole, as Liger's kernel).

    Data parallelism: ``reduce_each``: gradients are reduced after each microbatch (``auto``: where they are sharded,
    ZeRO-2 and 3, and there is no pipeline; else they accumulate unsharded until the last). ``secondary`` > 0: a second
    copy of ZeRO-3's parameters is sharded over that many neighbouring ranks, and backward gathers from those (hpZ of
    ZeRO++, arXiv:2306.10209). ``offload``: what stands in host memory: ``activations`` of layers (copied out behind the
    forward and back ahead of the backward), ``optimizer`` (states and step).

    Experts: ``routing`` says how unevenly tokens reach them (see `workloads.routing`); ``capacity``
    > 0 limits an expert to that many times its mean and drops the rest (``dropless`` false);
    ``dispatcher`` is how tokens travel, ``dispatch_dtype`` their precision on the way out (``""``:
    the activations'). ``mtp``: whether multi-token-prediction layers are trained too. ``comm_sms``:
    compute units (SMs) kept free for communication kernels. ``libraries``: year of the kernel libraries where they are
    older than the device's tables (0: those of the tables).
    """

    tp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    pp: int = 1
    dp: int = 1
    chunks: int = 1
    schedule: str = "1f1b"
    group_size: int = 0
    microbatch: int = 1
    global_batch: int
    seq_len: int
    sequence_parallel: bool = False
    context: str = "all_gather"
    zero: int = 0
    shard: int = 0
    reshard: bool = True
    prefetch: int = 1
    bucket_bytes: float = 0.0
    recompute: str = "none"
    recompute_layers: int = 0
    recompute_every: int = 1
    dtype: str = "bf16"
    layout: tuple[int, ...] = ()
    software: str = "megatron-core"
    attention: str = "auto"
    overlap_grad_reduce: str = "auto"
    overlap_param_gather: str = "auto"
    overlap_p2p: str = "auto"
    overlap_tp: str = "auto"
    dropout: bool = False
    routing: str = UNIFORM
    dropless: bool = True
    capacity: float = 0.0
    dispatcher: str = "auto"
    dispatch_dtype: str = ""
    overlap_ep: str = "auto"
    overlap_shared: str = "auto"
    mtp: bool = False
    comm_sms: int = 0
    recompute_modules: tuple[str, ...] = ("core_attn",)
    order: tuple[str, ...] = ("tp", "cp", "dp", "pp")
    loss: str = "auto"
    reduce_each: str = "auto"
    secondary: int = 0
    offload: tuple[str, ...] = ()
    libraries: float = 0.0

    def __post_init__(self) -> None:
        """Check what the plan alone can tell; `check` does the rest against a model."""
        positive = (
            "tp cp ep etp pp dp chunks microbatch global_batch seq_len prefetch recompute_every"
        )
        for name in positive.split():
            value = getattr(self, name)
            if value < 1:
                raise PlanError(f"{name}={value} must be at least 1")
        for name in (
            "group_size",
            "shard",
            "bucket_bytes",
            "recompute_layers",
            "comm_sms",
            "secondary",
            "libraries",
        ):
            if getattr(self, name) < 0:
                raise PlanError(f"{name}={getattr(self, name)} must be 0 (automatic) or more")
        self._check_choices()
        if sorted(self.order) != ["cp", "dp", "pp", "tp"]:
            raise PlanError(f"order={self.order} must name tp, cp, dp and pp once each")
        expert_ranks = self.tp * self.cp * self.dp
        if expert_ranks % (self.ep * self.etp):
            raise PlanError(
                f"ep={self.ep} x etp={self.etp} does not divide tp x cp x dp = {expert_ranks}; experts use the same "
                f"devices: choose ep x etp from the divisors of {expert_ranks}"
            )
        replicas = self.dp * self.microbatch
        if self.global_batch % replicas:
            low = self.global_batch // replicas * replicas
            near = f"{low} or {low + replicas}" if low else f"{replicas}"
            raise PlanError(
                f"global_batch={self.global_batch} is not a multiple of dp={self.dp} x microbatch={self.microbatch} "
                f"= {replicas}; choose {near}"
            )
        if self.shard and (self.dp * self.cp) % self.shard:
            raise PlanError(f"shard={self.shard} does not divide dp x cp = {self.dp * self.cp}")
        if self.secondary and (self.zero != 3 or not self.reshard):
            raise PlanError(
                f"secondary={self.secondary} with zero={self.zero}, reshard={self.reshard} has no effect: only ZeRO-3 "
                f"that reshards gathers again for backward; use zero=3, reshard=true, or secondary=0"
            )
        if self.secondary and (self.dp * self.cp) % self.secondary:
            raise PlanError(
                f"secondary={self.secondary} does not divide dp x cp = {self.dp * self.cp}"
            )

    def _check_choices(self) -> None:
        choices: dict[str, tuple[str, ...] | list[str]] = {
            "schedule": list(SCHEDULES), "recompute": RECOMPUTE, "context": CONTEXT,
            "dtype": TRAINING_DTYPES, "software": list(SOFTWARE), "attention": ATTENTION,
            "overlap_grad_reduce": SWITCH, "overlap_param_gather": SWITCH, "overlap_p2p": SWITCH,
            "overlap_tp": SWITCH, "overlap_ep": SWITCH, "overlap_shared": SWITCH,
            "dispatcher": DISPATCHERS, "dispatch_dtype": DISPATCH_DTYPES, "loss": LOSSES, "reduce_each": SWITCH,
        }  # fmt: skip
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise PlanError(unknown(name, getattr(self, name), known))
        for module in self.recompute_modules:
            if module not in MODULES:
                raise PlanError(unknown("recompute_modules", module, MODULES))
        for what in self.offload:
            if what not in OFFLOADS:
                raise PlanError(unknown("offload", what, OFFLOADS))
        parse_routing(self.routing)
        if self.dropless and self.capacity:
            raise PlanError(
                f"capacity={self.capacity} with dropless=true: a dropless layer has no capacity; set dropless=false or "
                f"capacity=0"
            )
        if not self.dropless and self.capacity <= 0:
            raise PlanError(
                f"capacity={self.capacity} with dropless=false: give a capacity above 0, such as 1.25, or dropless=true"
            )
        if self.zero not in (0, 1, 2, 3):
            raise PlanError(f"zero={self.zero} must be 0, 1, 2 or 3")

    @property
    def num_devices(self) -> int:
        """Devices the plan uses: tp x cp x pp x dp."""
        return prod((self.tp, self.cp, self.pp, self.dp))

    @property
    def num_microbatches(self) -> int:
        """Microbatches a replica runs a step."""
        return self.global_batch // (self.dp * self.microbatch)

    @property
    def num_stages(self) -> int:
        """Model slices: pp x chunks."""
        return self.pp * self.chunks

    @property
    def dtype_bytes(self) -> float:
        """Bytes of an activation or a stored parameter (fp8 and nvfp4 keep both in bf16)."""
        return {"fp8": 2.0, "nvfp4": 2.0, "int8": 2.0}.get(self.dtype, DTYPE_BYTES[self.dtype])

    @property
    def reduces_each(self) -> bool:
        """Whether gradients are reduced after each microbatch, not once at the end."""
        if self.reduce_each == "auto":
            return self.zero >= 2 and self.pp == 1
        return self.reduce_each == "on"

    def switch(self, name: str) -> bool:
        """Whether a switch is on: the plan's own word, else the software profile's."""
        value = getattr(self, name)
        return bool(getattr(SOFTWARE[self.software], name)) if value == "auto" else value == "on"

    def choice(self, name: str) -> str:
        """Return a word of the plan, or where it is ``auto`` the software profile's."""
        value = getattr(self, name)
        return str(getattr(SOFTWARE[self.software], name)) if value == "auto" else str(value)


def plan_fields() -> dict[str, type]:
    """Names and types of what a plan may set (run files check against these)."""
    return {f.name: f.type for f in fields(Plan)}  # type: ignore[misc]


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
    if plan.seq_len % (plan.cp * (plan.tp if plan.sequence_parallel else 1)):
        raise PlanError(
            f"cp={plan.cp}{f' x tp={plan.tp} (sequence_parallel)' if plan.sequence_parallel else ''} does not divide "
            f"seq_len={plan.seq_len}"
        )
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
        for count, least in (("recompute_layers", 0), ("recompute_every", 1)):
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
    if not model.is_moe:
        for name, neutral in (
            ("routing", UNIFORM), ("capacity", 0.0), ("dispatcher", "auto"), ("dispatch_dtype", ""),
        ):  # fmt: skip
            if getattr(plan, name) != neutral:
                yield f"{name}={getattr(plan, name)!r} but {model.name} has no experts; leave it out"
    for name, there, need in (
        ("overlap_ep", plan.ep > 1, "ep above 1"),
        ("overlap_shared", plan.ep > 1 and model.shared_width > 0, "shared experts and ep above 1"),
    ):
        if getattr(plan, name) == "on" and not there:
            yield f"{name}='on' has no effect here: it needs {need}; use {name}='auto' or 'off'"


def divisors(n: int) -> str:
    """Return the divisors of n, for a message (the first dozen)."""
    found = [d for d in range(1, n + 1) if n % d == 0]
    return ", ".join(map(str, found[:12])) + (", ..." if len(found) > 12 else "")
