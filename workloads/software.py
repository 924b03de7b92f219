"""Software profiles: how frameworks of different years run the same model.

A profile is a few switches a reader can look up in that framework, and nothing fitted to a run. The numeric constants
that software needs (host launch time a kernel, ...) are the module constants below: ten at most in all, each with the
set of runs it was fitted on.
"""

from dataclasses import dataclass, replace

from sim.errors import PlanError, unknown
from sim.units import MiB, us

HOST_OPERATION = 5.0 * us
"""Host seconds of a bare operation of PyTorch, as its own overhead benchmarks have it; not fitted."""
HOST_LAUNCH_EAGER = 2.0 * HOST_OPERATION
"""Host seconds a kernel launched from eager PyTorch: the operation, and a module's Python and autograd's node as much
again. Framework traces have up to 20 us; not fitted."""
HOST_LAUNCH_COMPILED = 1.0 * us
"""Host seconds a kernel launched from a compiled graph or CUDA graph; not fitted."""
HOST_LAUNCH_MODULES = 30.0 * us
"""Host seconds a kernel of Megatron-Core's Python: modules of Transformer Engine, dispatcher, autograd functions. Of
10, 20, 30, 40 and 50 us the one that fits the mixtures of the Megatron MoE Model Zoo and of Megatron-Bridge best
(`experiments.calibration.software`); dense models, whose kernels are long, do not notice."""
HOST_GROUPED = 200.0 * us
"""Host seconds of a grouped product or cast of Megatron-Core beside its experts: the Python of Transformer Engine's
GroupedLinear. This and `HOST_EXPERT` were chosen of a few pairs on Megatron-Bridge's runs and the Model Zoo's."""
HOST_EXPERT = 20.0 * us
"""Host seconds of each expert of it: a tensor made in Python, a library call from C++."""
EAGER_BANDWIDTH = 0.8
"""Share of the achieved bandwidth that PyTorch's unfused elementwise kernels reach. Of 1, 0.8 and 0.7 the one that
fits the MosaicML rows on A100-40GB best; the other MosaicML rows (A100-80GB, H100) were in view."""


DEEPSPEED_BUCKET = 500_000_000
"""Values DeepSpeed reduces at once (``reduce_bucket_size``, its documented default)."""
TORCH_BUCKET = int(25 * MiB) // 4
"""Values DistributedDataParallel reduces at once (``bucket_cap_mb`` 25, its documented default)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What a framework generation does.

    ``attention``: kernel of the attention core (``unfused``, ``fa1``, ``fa2``, ``fa3``, ``te``,
    ``xla``); ``fused_elementwise``: bias, dropout, add, activation and norm each in one kernel
    (else several passes); ``fused_bias``: bias gradients come out of a neighbouring kernel (else a
    pass over the output gradient); ``fused_residual``: so does the sum of the two gradients where a
    residual branches off; ``packed_qkv``: attention writes the gradients of q, k and v where the
    projection reads them (else they are copied together); ``sequence_first``: activations are (sequence, batch,
    hidden), so kernels that want a batch's sequences whole copy them; ``fused_cast``: kernels
    write what a product reads in its 8 or 4 bits (else a pass reads it again); ``fused_wgrad``: weight gradients
    accumulate into the fp32 buffer inside the GEMM; ``async_tp``: input-gradient collectives of a
    column-parallel layer overlap its weight gradient; ``overlap_tp``: GEMMs are cut into chunks
    that overlap their all-gather or reduce-scatter (user buffers);
    ``overlap_grad_reduce``/``overlap_param_gather``: bucketed reductions during backward, gathers
    during forward; ``overlap_p2p``: pipeline transfers run beside compute, else the sender waits
    (batched send/recv); ``p2p_sync``: the host synchronises with the device at every pipeline
    transfer; ``scatter_gather``: without sequence parallelism a boundary tensor crosses the network
    once, cut over tp; ``fp32_grads``: gradients of bf16 training accumulate and reduce in fp32
    (fp16's keep their precision, as those of Megatron-LM and DeepSpeed); ``master_weights``: an
    fp32 copy of the weights beside them, else they are kept in fp32 themselves and cast where they
    are used; ``placeholders``: products that accumulate their weight gradient return an empty
    tensor in its place, one kept a shape (Transformer Engine); ``keeps_outputs``: a pipeline stage
    keeps what it sent until its backward; ``flat_step``: DeepSpeed's optimizer: bf16 gradients
    beside their fp32 sums, and flat copies of its share while it steps; ``gather_lists``: ZeRO-3
    gathers into, and reduces from, a list of one tensor a rank (see `workloads.on_use`); ``bucket_values``:
    gradients reduced at once (0: Megatron-Core's rule); ``lazy_modules``: CUDA loads a kernel's code
    when it is first used (PyTorch's default since 1.13); ``rematerialises``: the compiler keeps no result
    of elementwise kernels that its backward can make again from what is kept anyway (torch.compile's
    min-cut partitioner); ``loss``: how cross-entropy holds logits
    (``vocab_parallel``: in fp32 beside the training precision; ``eager``: the same and two fp32
    gradients; ``compiled``: in the training precision, and so their gradient; ``chunked``: never
    whole); ``launch``: host seconds a kernel; ``dispatcher``: how tokens travel to experts
    (``alltoall``, ``allgather``, ``deepep``); ``overlap_shared``: shared experts compute meanwhile;
    ``expert_counts``: the host waits to learn how many tokens each expert gets (unless padded);
    ``pad_to_capacity``: experts that drop tokens above a capacity are filled up to it where they get fewer;
    ``grouped_loop``: a grouped product is a launch (and a cast) for each expert, as in Transformer
    Engine's GroupedLinear, and routing is some dozens of small kernels; ``scan``: layers are one
    loop, so what a layer needs is gathered when its turn comes, the MLP's under the attention
    (jax.lax.scan); ``overlap_ep``: a forward and a backward run side by side, one's travel under
    the other.
    """

    name: str
    attention: str = "fa2"
    fused_elementwise: bool = True
    fused_optimizer: bool = True
    fused_bias: bool = False
    fused_residual: bool = False
    packed_qkv: bool = False
    sequence_first: bool = False
    fused_cast: bool = False
    fused_wgrad: bool = True
    async_tp: bool = True
    overlap_tp: bool = False
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True
    overlap_p2p: bool = True
    p2p_sync: bool = False
    scatter_gather: bool = True
    fp32_grads: bool = True
    master_weights: bool = True
    placeholders: bool = False
    keeps_outputs: bool = False
    flat_step: bool = False
    gather_lists: bool = False
    bucket_values: int = 0
    lazy_modules: bool = True
    rematerialises: bool = False
    loss: str = "vocab_parallel"
    launch: float = HOST_LAUNCH_EAGER
    dispatcher: str = "alltoall"
    overlap_shared: bool = False
    overlap_ep: bool = False
    expert_counts: bool = True
    pad_to_capacity: bool = False
    grouped_loop: bool = True
    scan: bool = False
    description: str = ""


MEGATRON_2021 = Software(
    name="megatron-2021",
    lazy_modules=False,
    attention="unfused",
    fused_wgrad=False,
    async_tp=False,
    overlap_grad_reduce=False,
    overlap_param_gather=False,
    overlap_p2p=False,
    p2p_sync=True,
    keeps_outputs=True,
    gather_lists=True,
    description="Megatron-LM of the SC21 paper: fused softmax, bias-GeLU and bias-dropout-add; DDP after backward",
)
MEGATRON_2022 = Software(
    name="megatron-2022",
    lazy_modules=False,
    attention="unfused",
    overlap_grad_reduce=False,
    overlap_param_gather=False,
    overlap_p2p=False,
    p2p_sync=True,
    description="Megatron-LM of the sequence-parallel paper: weight-gradient fusion, input-gradient overlap",
)
MEGATRON_DEEPSPEED = Software(
    name="megatron-deepspeed",
    lazy_modules=False,
    attention="unfused",
    fused_wgrad=False,
    async_tp=False,
    overlap_grad_reduce=False,
    overlap_param_gather=False,
    overlap_p2p=False,
    p2p_sync=True,
    scatter_gather=False,
    pad_to_capacity=True,
    keeps_outputs=True,
    flat_step=True,
    bucket_values=DEEPSPEED_BUCKET,
    description="Megatron-DeepSpeed (BLOOM, MT-NLG, vTrain): DeepSpeed's pipeline engine and ZeRO-1",
)
MEGATRON_CORE = Software(
    name="megatron-core",
    attention="te",
    fused_bias=True,
    packed_qkv=True,
    sequence_first=True,
    placeholders=True,
    launch=HOST_LAUNCH_MODULES,
    description="Megatron-Core with Transformer Engine (NeMo, Megatron-Bridge): flash attention, overlapped reductions",
)
MEGATRON_CORE_GRAPHS = replace(
    MEGATRON_CORE,
    name="megatron-core-graphs",
    launch=HOST_LAUNCH_COMPILED,
    fused_cast=True,
    description="Megatron-Core of 2026 on Blackwell: CUDA graphs; norms, activations and permutations write 8 bits",
)
TORCH_FSDP = Software(
    name="torch-fsdp",
    attention="fa2",
    fused_elementwise=False,
    fused_optimizer=False,
    fused_wgrad=False,
    async_tp=False,
    master_weights=False,
    bucket_values=TORCH_BUCKET,
    loss="eager",
    description="PyTorch eager FSDP (Composer, FSDP1/2), DeepSpeed ZeRO-3",
)
TORCH_COMPILED = Software(
    name="torch-compiled",
    rematerialises=True,
    attention="fa2",
    fused_residual=True,
    fused_wgrad=False,
    async_tp=False,
    launch=HOST_LAUNCH_COMPILED,
    master_weights=False,
    bucket_values=TORCH_BUCKET,
    loss="compiled",
    grouped_loop=False,
    description="torchtitan with torch.compile: fused elementwise kernels, FSDP2",
)
XLA = Software(
    name="xla",
    attention="xla",
    fused_bias=True,
    fused_residual=True,
    packed_qkv=True,
    launch=0.0,
    overlap_grad_reduce=False,
    fp32_grads=False,
    master_weights=False,
    expert_counts=False,
    pad_to_capacity=True,
    grouped_loop=False,
    scan=True,
    description="JAX on XLA (MaxText, Paxml): compiled; gathers overlapped, bf16 reduce-scatters alone on the core",
)
"""On TPUs XLA fuses all-gathers with products (async collective fusion), and a reduce-scatter has the core to itself
unless sparse cores take it (XLA flags of AI-Hypercomputer/tpu-recipes). A product's gradient is bf16, as its operands,
and cast to the fp32 of its parameter after its reduction (MaxText linears.py casts the kernel, so autodiff casts back).
"""

SOFTWARE = {
    s.name: s
    for s in (
        MEGATRON_2021,
        MEGATRON_2022,
        MEGATRON_DEEPSPEED,
        MEGATRON_CORE,
        MEGATRON_CORE_GRAPHS,
        TORCH_FSDP,
        TORCH_COMPILED,
        XLA,
    )
}


def software(name: str) -> Software:
    """Return the profile of that name, or raise `PlanError` with the near ones."""
    if name not in SOFTWARE:
        raise PlanError(unknown("software", name, SOFTWARE))
    return SOFTWARE[name]
