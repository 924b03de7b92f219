"""The state-space scan of Mamba-2 as the kernels that run it, with the FLOPs and bytes of each.

The algorithm: Dao and Gu 2024 (arXiv:2405.21060, section 6). Inside a chunk of Q tokens, products like attention's;
between chunks, one state a head. The kernels, and what each reads and writes, are those of state-spaces/mamba 2.3
(``ops/triton/ssd_*.py``): states leave their kernel in fp32, as do the scores C B of a group; the backward makes
states and scores again. An operand counts once: what several heads of a group read again comes from the cache.
"""

from dataclasses import dataclass
from functools import cached_property

from sim.kernels.shapes import DTYPE_BYTES, Chunked, Memory
from sim.program import Compute

CHUNK = 128
"""Tokens of a chunk: Megatron-Core's default and the Nemotron configurations' (state-spaces/mamba's own is 256)."""
TILE = 64
"""Rows and columns of a tile of scores, the middle of the kernels' choices; tiles above the diagonal are left out."""
FP32 = DTYPE_BYTES["fp32"]
SMALL = 10
"""Small PyTorch kernels of the backward (clone, zeros, flips, running sum, sums of decays' gradients), counted in
``_mamba_chunk_scan_combined_bwd``."""


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Sizes of a scan on one rank: ``head`` and ``state`` values a head, ``length`` tokens of a sequence."""

    tokens: int
    heads: int
    groups: int
    head: int
    state: int
    length: int
    value: float
    dtype: str

    @cached_property
    def chunk(self) -> int:
        """Tokens of a chunk."""
        return min(CHUNK, self.length)

    @cached_property
    def x(self) -> float:
        """Bytes of the inputs, (tokens, heads, head); so many are outputs, gates and their gradients."""
        return self.tokens * self.heads * self.head * self.value

    @cached_property
    def b(self) -> float:
        """Bytes of B, or of C: (tokens, groups, state)."""
        return self.tokens * self.groups * self.state * self.value

    @cached_property
    def step(self) -> float:
        """Bytes of step sizes, or of the decays' running sums, in fp32: (tokens, heads)."""
        return self.tokens * self.heads * FP32

    @cached_property
    def states(self) -> float:
        """Values of the states: (chunks, heads, head, state)."""
        return self.tokens / self.chunk * self.heads * self.head * self.state

    @cached_property
    def products(self) -> float:
        """Bytes of C B in fp32: (chunks, groups, Q, Q)."""
        return self.tokens * self.groups * self.chunk * FP32

    @cached_property
    def scores(self) -> float:
        """Decayed scores of all heads: those of tiles on and below the diagonal."""
        tiles = max(self.chunk / TILE, 1.0)
        return self.tokens * self.heads * self.chunk * (1.0 + 1.0 / tiles) / 2.0

    @cached_property
    def inner(self) -> float:
        """Values of x, a gate or an output: (tokens, heads, head)."""
        return float(self.tokens * self.heads * self.head)

    @cached_property
    def outer(self) -> float:
        """Values of B or C as heads weigh them, or of their gradients: (tokens, heads, state)."""
        return float(self.tokens * self.heads * self.state)

    @cached_property
    def through_state(self) -> float:
        """FLOPs of a product between tokens and states."""
        return 2.0 * self.tokens * self.heads * self.head * self.state

    @cached_property
    def through_scores(self) -> float:
        """FLOPs of a product between scores and tokens, or of one that makes scores of heads."""
        return 2.0 * self.scores * self.head

    @cached_property
    def of_groups(self) -> float:
        """FLOPs of a product of C and B."""
        return 2.0 * self.tokens * self.groups * self.chunk * self.state

    def kernel(
        self, name: str, phase: str, nbytes: float, flops: float = 0.0, values: float = 0.0
    ) -> Compute:
        """Return one kernel of the scan."""
        return Compute(f"scan.{name}", Chunked(flops, nbytes, values, self.dtype), phase)


def scan_forward(s: Scan) -> tuple[Compute, ...]:
    """Return step sizes, states, their passing, C B, and the output (gated; kept ungated too)."""
    wide = s.states * s.value
    return (
        *_states(s, "F", passed=wide),
        s.kernel("products", "F", 2 * s.b + s.products, s.of_groups),
        s.kernel(
            "output",
            "F",
            s.products + s.b + 2 * s.step + wide + 4 * s.x,
            s.through_state + s.through_scores,
            s.scores + 2 * s.inner,
        ),
    )


def scan_backward(s: Scan) -> tuple[Compute, ...]:
    """Return the kernels of the backward: states and products again, then the gradients one by one."""
    fp32, wide = s.states * FP32, s.states * s.value
    sums = s.tokens * s.groups * s.state * FP32
    return (
        *_states(s, "B", passed=fp32),
        s.kernel("products", "B", 2 * s.b + s.products, s.of_groups),
        s.kernel("dz", "B", 6 * s.x, 0.0, 2 * s.inner),
        s.kernel("dstates", "B", s.b + s.x + s.step + fp32, s.through_state, s.inner),
        s.kernel("passing.bwd", "B", 2 * fp32 + 2 * wide),
        s.kernel(
            "dx",
            "B",
            3 * s.x + s.b + s.products + wide + 3 * s.step,
            s.through_state + s.through_scores,
            s.scores + 2 * s.inner,
        ),
        s.kernel("db", "B", s.x + wide + s.b + 3 * s.step + 3 * sums, s.through_state, s.outer),
        s.kernel("dc", "B", s.x + wide + s.b + 2 * s.step + 3 * sums, s.through_state, s.outer),
        s.kernel(
            "dproducts", "B", 2 * s.x + 2 * s.step + 3 * s.products, s.through_scores, s.scores
        ),
        s.kernel("db.groups", "B", 2 * s.b + s.products + sums, s.of_groups),
        s.kernel("dc.groups", "B", 2 * s.b + s.products + sums, s.of_groups),
        s.kernel("ddecay", "B", 2 * s.x + s.products + 4 * s.step, s.through_scores, s.scores),
        Compute("scan.small", Memory("scan", 2 * SMALL * s.step), "B", launches=SMALL),
        s.kernel("dsteps", "B", 4 * s.step),
    )


def _states(s: Scan, phase: str, passed: float) -> tuple[Compute, ...]:
    """Return step sizes and decays, states of the chunks and their passing on; ``passed``: bytes those leave in."""
    fp32 = s.states * FP32
    return (
        s.kernel("steps", phase, 3 * s.step),
        s.kernel("states", phase, s.x + s.b + 2 * s.step + fp32, s.through_state, s.outer),
        s.kernel("passing", phase, fp32 + passed),
    )
