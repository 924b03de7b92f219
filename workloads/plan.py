"""Plan: how a model is spread over devices and time."""

from dataclasses import dataclass
from math import prod

from sim.errors import PlanError, unknown
from sim.kernels.shapes import DTYPE_BYTES
from workloads.documents import check_documents
from workloads.packing import BALANCES
from workloads.routing import UNIFORM, parse_routing
from workloads.schedules import SCHEDULES
from workloads.software import SOFTWARE

RECOMPUTE = ("none", "selective", "full")
CONTEXT = ("all_gather", "ring", "ulysses", "ulysses+ring")
TRAINING_DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "nvfp4", "int8")
ATTENTION = ("auto", "unfused", "fa1", "fa2", "fa3", "fa4", "cudnn", "triton", "te", "xla")
SWITCH = ("auto", "on", "off")
LOSSES = ("auto", "vocab_parallel", "eager", "dropped", "compiled", "chunked")
OFFLOADS = ("activations", "optimizer")
DISPATCHERS = ("auto", "alltoall", "allgather", "deepep")
DISPATCH_DTYPES = ("", "fp8")
KEEPS = ("qkv", "attn_out", "mlp_up", "mlp_down")
"""Products whose outputs full recomputation can keep."""
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
    ``recompute_every`` > 1 to one layer in so many, and ``recompute_keeps`` names the products whose outputs it keeps
    (qkv, attn_out, mlp_up, mlp_down; MaxText's and Paxml's save_* policies). ``context`` is how attention spans ``cp``.
    ``layout``: layers of each stage, in stage order (``()``: see `workloads.layout`). ``order``: axes from
    fastest-varying rank to slowest. ``scatter_gather``: a boundary tensor that tensor-parallel ranks all hold crosses
    the network once, cut over tp (SC21, section 4.1). ``attention`` names the kernel of the attention core. Switches
    set to ``auto`` follow ``software``.
    ``loss``: how cross-entropy holds logits (see `workloads.software`; ``dropped``: eager's, but for the logits
    themselves, let go of before the backward; ``chunked``: never whole, as Liger's kernel).

    Data parallelism: ``reduce_each``: gradients are reduced after each microbatch (``auto``: where they are sharded,
    ZeRO-2 and 3, and there is no pipeline; else they accumulate unsharded until the last). ``secondary`` > 0: a second
    copy of ZeRO-3's parameters is sharded over that many neighbouring ranks, and backward gathers from those (hpZ of
    ZeRO++, arXiv:2306.10209). ``offload``: what stands in host memory: ``activations`` of layers (copied out behind the
    forward and back ahead of the backward), ``optimizer`` (states and step).

    Long context: ``context`` all_gather (keys and values first), ring, ulysses (all-to-all), or ``ulysses+ring``, which
    swaps heads within ``context_inner`` neighbours and passes keys round between such groups. ``context_balance``:
    zigzag or contiguous pieces of a sequence (see `workloads.packing`). ``documents``: lengths of those packed into a
    sequence (``""``: one as long as it; see `workloads.documents`); ``document_seed`` draws where they stand, which
    matters where pieces of a sequence lie on several ranks.

    Experts: ``routing`` says how unevenly tokens reach them (see `workloads.routing`); ``capacity``
    > 0 limits an expert to that many times its mean and drops the rest (``dropless`` false), and ``pad_to_capacity``
    fills up the others with padding (``auto``: as XLA and DeepSpeed do, Megatron-Core's default does not);
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
    scatter_gather: str = "auto"
    dropout: bool = False
    routing: str = UNIFORM
    dropless: bool = True
    capacity: float = 0.0
    pad_to_capacity: str = "auto"
    dispatcher: str = "auto"
    dispatch_dtype: str = ""
    overlap_ep: str = "auto"
    overlap_shared: str = "auto"
    mtp: bool = False
    comm_sms: int = 0
    recompute_modules: tuple[str, ...] = ("core_attn",)
    recompute_keeps: tuple[str, ...] = ()
    order: tuple[str, ...] = ("tp", "cp", "dp", "pp")
    loss: str = "auto"
    reduce_each: str = "auto"
    secondary: int = 0
    offload: tuple[str, ...] = ()
    libraries: float = 0.0
    documents: str = ""
    document_seed: int = 0
    context_balance: str = BALANCES[0]
    context_inner: int = 0

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
            "document_seed",
            "context_inner",
            "libraries",
        ):
            if getattr(self, name) < 0:
                raise PlanError(f"{name}={getattr(self, name)} must be 0 (automatic) or more")
        self._check_choices()
        self._check_context()
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

    def _check_context(self) -> None:
        if self.documents:
            check_documents(self.documents, self.seq_len)
        mixed, inner = self.context == "ulysses+ring", self.context_inner
        if mixed and self.cp > 1 and not (1 < inner < self.cp and self.cp % inner == 0):
            between = [d for d in range(2, self.cp) if self.cp % d == 0]
            known = f"choose from {', '.join(map(str, between))}" if between else "raise cp"
            raise PlanError(
                f"context_inner={inner} with context='ulysses+ring' must be a divisor of cp={self.cp} between 1 and "
                f"cp; {known}, or use context='ulysses' or 'ring'"
            )
        if inner and not (mixed and self.cp > 1):
            raise PlanError(
                f"context_inner={inner} with context={self.context!r} on cp={self.cp} has no effect; use "
                f"context='ulysses+ring' with cp above 1, or context_inner=0"
            )

    def _check_choices(self) -> None:
        choices: dict[str, tuple[str, ...] | list[str]] = {
            "schedule": list(SCHEDULES), "recompute": RECOMPUTE, "context": CONTEXT,
            "dtype": TRAINING_DTYPES, "software": list(SOFTWARE), "attention": ATTENTION,
            "overlap_grad_reduce": SWITCH, "overlap_param_gather": SWITCH, "overlap_p2p": SWITCH,
            "overlap_tp": SWITCH, "overlap_ep": SWITCH, "overlap_shared": SWITCH, "scatter_gather": SWITCH,
            "pad_to_capacity": SWITCH,
            "dispatcher": DISPATCHERS, "dispatch_dtype": DISPATCH_DTYPES, "loss": LOSSES, "reduce_each": SWITCH,
            "context_balance": BALANCES,
        }  # fmt: skip
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise PlanError(unknown(name, getattr(self, name), known))
        for product in self.recompute_keeps:
            if product not in KEEPS:
                raise PlanError(unknown("recompute_keeps", product, KEEPS))
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
        if self.dropless and self.pad_to_capacity == "on":
            raise PlanError(
                "pad_to_capacity='on' with dropless=true has no effect: a dropless layer has no capacity; set "
                "dropless=false and a capacity, or pad_to_capacity='auto'"
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
    def ring_ranks(self) -> int:
        """Ranks that hold different queries of a sequence inside attention: cp, but for those that swap heads."""
        inner = {"ulysses": self.cp, "ulysses+ring": max(self.context_inner, 1)}
        return self.cp // inner.get(self.context, 1)

    @property
    def padded(self) -> bool:
        """Whether every expert gets exactly its capacity: what is above dropped, what is below filled up."""
        return not self.dropless and self.switch("pad_to_capacity")

    @property
    def uneven_context(self) -> bool:
        """Whether context-parallel ranks may have unequal attention work."""
        return self.ring_ranks > 1 and bool(self.documents or self.context_balance != BALANCES[0])

    @property
    def uneven(self) -> bool:
        """Whether ranks of one place in the pipeline may have unequal work."""
        return self.uneven_context or self.routing != UNIFORM

    @property
    def draws_documents(self) -> bool:
        """Whether where documents stand makes a difference, and so every microbatch its own."""
        return self.ring_ranks > 1 and bool(self.documents)

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
