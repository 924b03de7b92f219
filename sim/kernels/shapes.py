"""Kernel shapes: what a device is asked to compute, in sizes, FLOPs and bytes; never in seconds.

FLOPs count a multiply-add as two. ``nbytes`` is the traffic to and from device memory if every operand is
read once and every result written once.
"""

from dataclasses import dataclass

DTYPE_BYTES = {
    "fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "nvfp4": 0.5,
    "fp64": 8.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gemm:
    """``batch`` independent products (m, k) x (k, n) -> (m, n).

    ``accumulate`` adds into the output (a weight gradient: the output is read too, in ``out_bytes`` a value).
    """

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "bf16"
    out_bytes: float = 2.0
    accumulate: bool = False

    @property
    def flops(self) -> float:
        """FLOPs: 2 m n k batch."""
        return 2.0 * self.m * self.n * self.k * self.batch

    @property
    def nbytes(self) -> float:
        """Bytes moved once."""
        a = DTYPE_BYTES[self.dtype]
        out = self.m * self.n * self.out_bytes * (2 if self.accumulate else 1)
        return self.batch * ((self.m + self.n) * self.k * a + out)


@dataclass(frozen=True, slots=True)
class GroupedGemm:
    """``groups`` products of one (n, k) and ``m`` rows each (the mean rows a group; ``m_max`` the largest).

    ``wgrad`` marks the weight-gradient form, in which the rows are the contracted dimension.
    """

    groups: int
    m: float
    n: int
    k: int
    dtype: str = "bf16"
    out_bytes: float = 2.0
    wgrad: bool = False
    m_max: float = 0.0

    @property
    def flops(self) -> float:
        """FLOPs: 2 groups m n k."""
        return 2.0 * self.groups * self.m * self.n * self.k

    @property
    def nbytes(self) -> float:
        """Bytes moved once."""
        a = DTYPE_BYTES[self.dtype]
        return self.groups * (
            self.m * self.k * a + self.k * self.n * a + self.m * self.n * self.out_bytes
        )


@dataclass(frozen=True, slots=True)
class Attention:
    """Scaled-dot-product attention in one fused kernel (flash), forward (``"fwd"``) or backward (``"bwd"``).

    ``seq_q`` x ``seq_kv`` scores a head; ``causal`` masks half of them; ``window`` > 0 limits each query to
    that many keys. ``implementation`` is a name of the kernel generation: fa1, fa2, fa3, cudnn, triton, te.
    ``scores`` > 0 overrides the number of scores a head (documents packed in a sequence, ring-attention steps).
    """

    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    head_dim: int
    v_head_dim: int = 0
    causal: bool = True
    direction: str = "fwd"
    dtype: str = "bf16"
    implementation: str = "fa2"
    window: int = 0
    scores: float = 0.0

    @property
    def num_scores(self) -> float:
        """Scores computed a head and sequence."""
        if self.scores:
            return self.scores
        q, kv = float(self.seq_q), float(self.seq_kv)
        if not self.causal:
            return q * min(kv, self.window) if self.window else q * kv
        full = q * kv - q * q / 2 if kv > q else q * kv / 2
        if self.window and self.window < kv:
            w = float(self.window)
            return min(full, q * w - (w * w / 2 if kv <= q else 0.0))
        return full

    @property
    def flops(self) -> float:
        """FLOPs: forward 2 scores (d_qk + d_v) a head; backward 2.5 times that (five products for two)."""
        v = self.v_head_dim or self.head_dim
        forward = 2.0 * self.batch * self.heads * self.num_scores * (self.head_dim + v)
        return forward if self.direction == "fwd" else 2.5 * forward

    @property
    def nbytes(self) -> float:
        """Bytes moved once: q, k, v, out (backward: their gradients too)."""
        v = self.v_head_dim or self.head_dim
        q = self.heads * self.seq_q * (self.head_dim + v)
        kv = self.kv_heads * self.seq_kv * (self.head_dim + v)
        return (
            self.batch
            * (q + kv)
            * DTYPE_BYTES[self.dtype]
            * (1.0 if self.direction == "fwd" else 2.0)
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """An elementwise, reduction or copy kernel: bound by memory traffic, ``nbytes`` in all.

    ``kind`` names what it is (norm, activation, rotary, dropout, add, softmax, cross_entropy, embedding,
    optimizer, cast, permute, copy, ...); ``flops`` are counted in no utilisation. ``speed``: share of the bandwidth a
    good kernel reaches that this one does.
    """

    kind: str
    nbytes: float
    flops: float = 0.0
    dtype: str = "bf16"
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Chunked:
    """One kernel of a state-space scan in chunks of tokens.

    ``flops`` of its products; ``nbytes`` read and written once; ``values`` it weighs one by one, by a decay, a step
    size or a gate.
    """

    flops: float
    nbytes: float
    values: float = 0.0
    dtype: str = "bf16"


Kernel = Gemm | GroupedGemm | Attention | Memory | Chunked
