"""Linear layers split over tp: by columns (each rank some outputs), by rows (each rank some inputs).

Without sequence parallelism a column-parallel layer all-reduces its input gradient (Megatron's
``f``) and a row-parallel one its output (``g``). With it, the same bytes go as an all-gather and a
reduce-scatter (Korthikanti et al. 2022, section 4.2). Where the software does so, what a
column-parallel backward communicates hides under its products: the gather of the saved input under
the input gradient, the reduction of that under the weight gradient.
"""

from sim.kernels.shapes import Memory
from sim.program import Collective, Compute, Op, Signal, Wait
from workloads.layers.part import Lanes, Part, join, lanes
from workloads.layers.sizes import Sizes

CHUNKS = 4
"""Pieces a product is cut into when it is pipelined with its collective (Transformer Engine's default)."""


def column(sizes: Sizes, name: str, inputs: int, outputs: int, *, bias: bool = False) -> Part:
    """Return a column-parallel layer; ``outputs`` are this rank's."""
    t, k, n = sizes.tokens, inputs, outputs
    nbytes = t * k * sizes.value
    parallel = sizes.plan.sequence_parallel and sizes.plan.tp > 1
    forward = _gathered(sizes, name, nbytes) if parallel else lanes()
    product = (*sizes.cast(f"{name}.cast", t * k, "F"), sizes.gemm(name, t, n, k, "F"))
    if parallel and sizes.plan.switch("overlap_tp"):
        forward = _pipelined(sizes, name, "all_gather", nbytes, (t, n, k), "F")
    else:
        forward = join((forward, lanes(*product)))
    cast = sizes.cast(f"{name}.grad_cast", t * n, "B")
    reduce = "reduce_scatter" if parallel else "all_reduce"
    dgrad = lanes(
        *cast,
        sizes.gemm(f"{name}.dgrad", t, k, n, "B"),
        *sizes.tp_collective(f"{name}.{reduce}", reduce, nbytes, "B"),
    )
    gather = (
        sizes.tp_collective(f"{name}.all_gather", "all_gather", nbytes, "W") if parallel else ()
    )
    wgrad = lanes(*gather, *weight_gradient(sizes, name, n, k, bias=bias))
    return Part(
        name=name,
        forward=forward,
        backward=dgrad,
        weight=wgrad,
        fused=_overlapped(sizes, name, cast, (n, k), nbytes, parallel, bias=bias),
        saved=(sizes.local_tokens if parallel else t) * k * sizes.value,
        kept=(sizes.local_tokens if parallel else t) * k * sizes.value + t * n * sizes.value,
        weights=float(n * k + (n if bias else 0)),
    )


def row(sizes: Sizes, name: str, inputs: int, outputs: int, *, bias: bool = False) -> Part:
    """Return a row-parallel layer; ``inputs`` are this rank's."""
    t, k, n = sizes.tokens, inputs, outputs
    nbytes = t * n * sizes.value
    parallel = sizes.plan.sequence_parallel and sizes.plan.tp > 1
    collective = "reduce_scatter" if parallel else "all_reduce"
    if parallel and sizes.plan.switch("overlap_tp"):
        forward = _pipelined(sizes, name, "reduce_scatter", nbytes, (t, n, k), "F")
        dgrad = _pipelined(sizes, f"{name}.dgrad", "all_gather", nbytes, (t, k, n), "B")
    else:
        forward = lanes(
            *sizes.cast(f"{name}.cast", t * k, "F"),
            sizes.gemm(name, t, n, k, "F"),
            *sizes.tp_collective(f"{name}.{collective}", collective, nbytes, "F"),
        )
        gather = sizes.tp_collective(f"{name}.all_gather", "all_gather", nbytes, "B")
        dgrad = lanes(
            *(gather if parallel else ()),
            *sizes.cast(f"{name}.grad_cast", t * n, "B"),
            sizes.gemm(f"{name}.dgrad", t, k, n, "B"),
        )
    return Part(
        name=name,
        forward=forward,
        backward=dgrad,
        weight=lanes(*weight_gradient(sizes, name, n, k, bias=bias)),
        saved=t * k * sizes.value,
        kept=t * k * sizes.value + t * n * sizes.value,
        weights=float(n * k + (n if bias else 0)),
    )


def replicated(sizes: Sizes, name: str, inputs: int, outputs: int, *, bias: bool = False) -> Part:
    """Return a layer every tp rank holds whole and runs on its own tokens."""
    t, k, n = sizes.local_tokens, inputs, outputs
    grad = Compute(f"{name}.wgrad", sizes.gemm(name, n, k, t, "W").kernel, "W")
    return Part(
        name=name,
        forward=lanes(sizes.gemm(name, t, n, k, "F")),
        backward=lanes(sizes.gemm(f"{name}.dgrad", t, k, n, "B")),
        weight=lanes(grad),
        saved=t * k * sizes.value,
        kept=t * (k + n) * sizes.value,
        weights=float(n * k + (n if bias else 0)),
    )


def weight_gradient(
    sizes: Sizes, name: str, n: int, k: int, *, bias: bool = False, waits: tuple[str, ...] = ()
) -> tuple[Op, ...]:
    """Return the product for the gradient of an (n, k) weight; the bias's and the sum, where not fused."""
    ops: list[Op] = [sizes.gemm(f"{name}.wgrad", n, k, sizes.tokens, "W", waits=waits)]
    if bias and not sizes.software.fused_bias:
        ops.append(
            Compute(f"{name}.bias_grad", Memory("reduce", sizes.tokens * n * sizes.value), "W")
        )
    if not sizes.software.fused_wgrad and sizes.plan.num_microbatches > 1:
        add = Memory("add", n * k * (sizes.value + 2 * sizes.grad))
        ops.append(Compute(f"{name}.grad_add", add, "W"))
    return tuple(ops)


def _gathered(sizes: Sizes, name: str, nbytes: float) -> Lanes:
    return lanes(*sizes.tp_collective(f"{name}.all_gather", "all_gather", nbytes, "F"))


def _overlapped(
    sizes: Sizes,
    name: str,
    cast: tuple[Op, ...],
    weight: tuple[int, int],
    nbytes: float,
    parallel: bool,
    *,
    bias: bool,
) -> Lanes | None:
    """Return the fused backward whose collectives run beside its products; None where the software waits."""
    if sizes.plan.tp == 1 or not sizes.software.async_tp:
        return None
    n, k = weight
    go, gathered, ready, reduced = (f"tp.{x}" for x in ("go", "gathered", "ready", "reduced"))
    kind = "reduce_scatter" if parallel else "all_reduce"
    beside: tuple[Op, ...] = ()
    if parallel:
        beside = sizes.tp_collective(
            f"{name}.all_gather", "all_gather", nbytes, "B", waits=(go,), signals=(gathered,)
        )
    beside += sizes.tp_collective(
        f"{name}.{kind}", kind, nbytes, "B", waits=(ready,), signals=(reduced,)
    )
    dgrad = sizes.gemm(
        f"{name}.dgrad", sizes.tokens, k, n, "B", signals=(ready,), starts=(go,) if parallel else ()
    )
    wgrad = weight_gradient(sizes, name, n, k, bias=bias, waits=(gathered,) if parallel else ())
    return lanes(*cast, dgrad, *wgrad, Wait((reduced,)), tp=beside)


def _pipelined(
    sizes: Sizes, name: str, kind: str, nbytes: float, shape: tuple[int, int, int], phase: str
) -> Lanes:
    """Return a product cut in pieces that overlap their collective, as user-buffer kernels do.

    Gather: piece i of the product starts when piece i of the gather is there. Reduce-scatter: piece
    i goes out when piece i of the product is done.
    """
    m, n, k = shape
    pieces: list[Op] = []
    beside: list[Op] = []
    for i in range(CHUNKS):
        rows = m * (i + 1) // CHUNKS - m * i // CHUNKS
        label = f"{name}.{kind}.{i}"
        if kind == "all_gather":
            beside.append(
                Collective(label, kind, "tp", nbytes / CHUNKS, phase, signals=("tp.came",))
            )
            pieces.append(sizes.gemm(f"{name}.{i}", rows, n, k, phase, waits=("tp.came",)))
        else:
            pieces.append(sizes.gemm(f"{name}.{i}", rows, n, k, phase, signals=("tp.piece",)))
            beside.append(
                Collective(
                    label,
                    kind,
                    "tp",
                    nbytes / CHUNKS,
                    phase,
                    waits=("tp.piece",),
                    signals=("tp.sent",),
                )
            )
    if kind == "all_gather":
        return lanes(Signal(("tp.open",)), *pieces, tp=(Wait(("tp.open",)), *beside))
    return lanes(*pieces, *(Wait(("tp.sent",)) for _ in range(CHUNKS)), tp=beside)
