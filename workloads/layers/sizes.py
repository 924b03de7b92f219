"""Sizes: the tensor sizes one rank works on, from the model and the plan."""

from dataclasses import dataclass
from functools import cached_property

from sim.kernels.shapes import DTYPE_BYTES, Gemm, Memory
from sim.program import Collective, Compute, Op
from workloads.model import Model
from workloads.plan import Plan
from workloads.routing import Load
from workloads.software import EAGER_BANDWIDTH, HOST_EXPERT, HOST_GROUPED, Software, software


@dataclass(frozen=True)
class Sizes:
    """What a rank sees of one microbatch.

    ``tokens``: of its context-parallel share; ``local_tokens``: those its norms and residuals work on (a tp-th of
    them with sequence parallelism). ``load``: what its experts get, where tokens go to experts unevenly.
    ``context_place``: its place among the ranks that share a sequence (-1: their mean), ``draw``: which packing of
    documents it sees.
    """

    model: Model
    plan: Plan
    load: Load | None = None
    context_place: int = -1
    draw: int = 0

    @cached_property
    def software(self) -> Software:
        """The profile of the plan."""
        return software(self.plan.software)

    @cached_property
    def attention(self) -> str:
        """Kernel of the attention core: the plan's, else the software's."""
        return self.software.attention if self.plan.attention == "auto" else self.plan.attention

    @cached_property
    def loss(self) -> str:
        """How cross-entropy holds logits: the plan's word, else the software's."""
        return self.plan.choice("loss")

    @cached_property
    def tokens(self) -> int:
        """Tokens of one microbatch on this rank."""
        return self.plan.microbatch * self.plan.seq_len // self.plan.cp

    @cached_property
    def local_tokens(self) -> int:
        """Tokens outside tensor-parallel regions."""
        return self.tokens // (self.plan.tp if self.plan.sequence_parallel else 1)

    @cached_property
    def value(self) -> float:
        """Bytes of an activation value."""
        return self.plan.dtype_bytes

    @cached_property
    def grad(self) -> float:
        """Bytes of a gradient value where it accumulates and reduces; fp16 training keeps fp16."""
        wide = self.software.fp32_grads and self.plan.dtype != "fp16"
        return DTYPE_BYTES["fp32"] if wide else self.value

    @cached_property
    def gemm_dtype(self) -> str:
        """Precision of the linear layers."""
        return self.plan.dtype

    @cached_property
    def wide_dtype(self) -> str:
        """Precision of products that are never quantised (router, head of a mixture)."""
        return self.plan.dtype if DTYPE_BYTES[self.plan.dtype] >= self.value else "bf16"

    @cached_property
    def stored(self) -> float:
        """Bytes of a value kept as the input of a product: as quantised."""
        return min(self.value, max(DTYPE_BYTES[self.gemm_dtype], 1.0))

    def recomputes(self, module: str) -> bool:
        """Whether selective recomputation repeats a module."""
        return self.plan.recompute == "selective" and module in self.plan.recompute_modules

    @cached_property
    def rematerialises(self) -> bool:
        """Whether results of elementwise kernels a product reads are made again (recomputation has its own rule)."""
        return self.software.rematerialises and self.plan.recompute == "none"

    @cached_property
    def wgrad_dtype(self) -> str:
        """Precision of weight gradients: int8 training (AQT) keeps them in bf16."""
        return "bf16" if self.gemm_dtype == "int8" else self.gemm_dtype

    @cached_property
    def hidden_bytes(self) -> float:
        """Bytes of one (tokens, hidden) tensor."""
        return self.tokens * self.model.hidden_size * self.value

    @cached_property
    def local_hidden_bytes(self) -> float:
        """Bytes of the share of it outside tensor-parallel regions."""
        return self.local_tokens * self.model.hidden_size * self.value

    def elementwise(
        self, name: str, kind: str, nbytes: float, phase: str, passes: float = 1.0
    ) -> Compute:
        """Return a memory-bound kernel; unfused software takes ``passes`` kernels over the same bytes."""
        if self.software.fused_elementwise:
            return Compute(name, Memory(kind, nbytes), phase)
        kernel = Memory(kind, nbytes * passes, speed=EAGER_BANDWIDTH)
        return Compute(name, kernel, phase, launches=max(round(passes), 1))

    def gemm(self, name: str, m: int, n: int, k: int, phase: str, *, starts: tuple[str, ...] = (),
             waits: tuple[str, ...] = (), signals: tuple[str, ...] = ()) -> Compute:  # fmt: skip
        """Return a product in the plan's precision; a weight gradient accumulates in fp32 where fused."""
        accumulate = phase == "W" and self.software.fused_wgrad
        out = self.grad if accumulate else self.value
        dtype = self.wgrad_dtype if phase == "W" else self.gemm_dtype
        kernel = Gemm(m, n, k, dtype=dtype, out_bytes=out, accumulate=accumulate)
        return Compute(name, kernel, phase, waits=waits, signals=signals, starts=starts)

    def grouped_work(self, pieces: int) -> float:
        """Return the host work of an op of ``pieces`` experts beside a launch each, in launches (below 0: cheaper)."""
        launch = self.software.launch
        if pieces == 1 or launch < HOST_EXPERT:
            return 0.0
        return (HOST_GROUPED + pieces * HOST_EXPERT) / launch - pieces

    def cast(self, name: str, values: float, phase: str, *, launches: int = 1) -> tuple[Op, ...]:
        """Return the kernel that quantises an operand for an 8- or 4-bit product.

        It writes a transposed copy too; XLA (``scan``) reads twice instead, for the scales and to quantise (AQT).
        """
        bits = DTYPE_BYTES[self.gemm_dtype]
        if bits >= self.value:
            return ()
        if self.software.fused_cast:
            return (Compute(name, Memory("cast", values * 2 * bits), phase),)
        moved = 2 * self.value + bits if self.software.scan else self.value + 2 * bits
        kernel = Memory("cast", values * moved)
        work = self.grouped_work(launches)
        return (Compute(name, kernel, phase, launches=launches, host_work=work),)

    def tp_collective(
        self, name: str, kind: str, nbytes: float, phase: str, *,
        waits: tuple[str, ...] = (), signals: tuple[str, ...] = (),
    ) -> tuple[Op, ...]:  # fmt: skip
        """Return a collective over tp, or nothing where tp is 1."""
        if self.plan.tp == 1:
            return ()
        return (Collective(name, kind, "tp", nbytes, phase, waits=waits, signals=signals),)
