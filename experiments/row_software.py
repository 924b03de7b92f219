"""Software of a measured run: the profile a framework name, its year and its plan mean."""

import re
from dataclasses import dataclass, replace

from experiments.row_text import Row, text, whole
from workloads.software import software


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What a framework does where a run does not say.

    ``profile`` of `workloads.software`; ``zero`` and ``recompute`` its defaults; ``context`` how attention spans cp;
    ``dropout`` whether its GPT scripts drop out; ``tp_overlap`` whether its recipes set tp_comm_overlap;
    ``sequence_parallel`` whether tensor parallelism cuts the norms too; ``dispatcher`` how its recipes send tokens to
    experts (``""``: the profile's way); ``dispatch_dtype`` and ``comm_sms`` with what and how many SMs; ``attention``
    its kernel of the attention core; ``mtp`` whether they train multi-token prediction where a model has it;
    ``per_op`` whether its selective recomputation repeats every other product; ``gathers_once`` whether FSDP under a
    pipeline gathers parameters once a step and reduces after the last microbatch; ``slices`` of the model a rank of an
    interleaved pipeline holds (0: one a layer); ``one_each`` whether a batch makes one microbatch a pipeline rank;
    ``drops_logits`` whether its loop lets go of the logits before the backward; ``reserved`` whether its log states
    the allocator's reserved memory; ``overlaps_zero3`` whether it overlaps what ZeRO-3 sends, if nothing else.
    """

    profile: str
    zero: int = 1
    recompute: str = "none"
    context: str = "all_gather"
    dropout: bool = False
    tp_overlap: bool = False
    sequence_parallel: bool = False
    dispatcher: str = ""
    dispatch_dtype: str = ""
    comm_sms: int = 0
    attention: str = "auto"
    mtp: bool = False
    per_op: bool = False
    gathers_once: bool = False
    slices: int = 0
    one_each: bool = False
    drops_logits: bool = False
    reserved: bool = False
    overlaps_zero3: bool = False


MEGATRON_2021 = Habits(profile="megatron-2021", zero=0, dropout=True)
MEGATRON_2022 = Habits(profile="megatron-2022", zero=0, dropout=True)
ZERO_BUBBLE = Habits(profile="megatron-2022", zero=0, dropout=True)
DEEPSPEED_3D = Habits(profile="megatron-deepspeed", dropout=True)
MEGATRON = Habits(profile="megatron-core", context="ring", sequence_parallel=True)
NEMO = replace(MEGATRON, tp_overlap=True)
BRIDGE = replace(NEMO, dispatcher="deepep", mtp=True)
BRIDGE_GRAPHS = replace(BRIDGE, profile="megatron-core-graphs")
HAI = replace(
    MEGATRON, dispatcher="deepep", dispatch_dtype="fp8", comm_sms=20, attention="fa2", mtp=True
)
FSDP = Habits(profile="torch-fsdp", zero=3)
META = replace(FSDP, sequence_parallel=True)
FUSED_TORCH = Habits(profile="torch-compiled", zero=0)
TITAN = Habits(
    profile="torch-fsdp",
    zero=3,
    recompute="selective (op)",
    sequence_parallel=True,
    per_op=True,
    gathers_once=True,
    slices=2,
    one_each=True,
    drops_logits=True,
    reserved=True,
)
TITAN_COMPILED = replace(TITAN, profile="torch-compiled")
XLA = Habits(profile="xla", zero=3, recompute="full")
NEURON = Habits(profile="xla", zero=1, recompute="selective", sequence_parallel=True)

FRAMEWORKS: tuple[tuple[str, Habits], ...] = (
    (r"neuronx|nxd|optimum-neuron", NEURON),
    (r"maxtext|paxml|\bpax\b|jax|levanter|t5x|pathways|\bxla\b|easylm", XLA),
    (r"torchtitan|\bfms\b|olmo-core|olmocore|simplefsdp", TITAN),
    (r"sail-sg|zero-?bubble", ZERO_BUBBLE),
    (r"hai-llm", HAI),
    (r"megatron-bridge", BRIDGE),
    (r"megatron.*fsdp|internevo|internlm", MEGATRON),
    (r"flash-attn training", FUSED_TORCH),
    (r"meta internal|fairseq|metaseq", META),
    (r"automodel|fsdp|lightning|transformers|lit-?gpt", FSDP),
    (r"megatron-deepspeed", DEEPSPEED_3D),
    (r"deepspeed|composer|accelerate|colossal|nnscaler|pytorch|torch\b", FSDP),
    (r"nemo|mlperf", NEMO),
    (r"megatron|mcore|mindspeed|mindspore|primus|megascale|internal", MEGATRON),
)
"""Pattern in the framework's name -> its habits; the first that fits. Read in each framework's documentation."""
MEGATRON_YEARS = ((2021, MEGATRON_2021), (2022, MEGATRON_2022))
"""Megatron-LM up to a year: before flash attention and overlapped reductions."""
LISTS_UNTIL, OVERLAPS_FROM = 2021, 2023
"""DeepSpeed's ZeRO-3 gathered into lists of a tensor a rank until ``_all_gather_base`` came in 2021, and overlaps
communication by default since version 0.7 of August 2022 (``overlap_comm``)."""
TRITON = re.compile(r"triton")
TRITON_1 = 2023
"""Until this year Triton's flash attention was the first FlashAttention's algorithm."""
FLASH_ON = re.compile(r"\bfa([234])\b[\w ]*? on (\w+)")
"""``FA3 on H200``: a version of FlashAttention and the device it ran on."""
KERNELS = (
    (r"flash[- ]?attention[- ]?3|\bfa3\b", "fa3"),
    (r"flash[- ]?attention[- ]?2|\bfa2\b", "fa2"),
    (r"flash[- ]?attention[- ]?1|\bfa1\b", "fa1"),
    (r"no flash|without flash", "unfused"),
)
"""Words in a row's framework or notes -> the kernel of its attention core; the first that fits."""
NEMO_VERSION = re.compile(r"\b(2[34]\.\d\d)\b")
NEMO_CUDNN = "24.09"
"""NeMo from which Transformer Engine's attention is cuDNN's on Hopper; before, flash attention 2. Not looked up: NeMo
24.03's runs at 128K tokens and more take the time of flash attention 2, and nothing else explains them."""
ROUNDS = {"v3.0": 2023.4, "v3.1": 2023.8}
"""When the code of an MLPerf training round was frozen."""
CONTAINER = re.compile(r"container (\d\d\.\d\d)|main, jul-aug 2026")
GRAPHS_SINCE = "26.06"
"""Container from which Megatron-Bridge's recipes for Blackwell capture attention, router and experts in CUDA graphs
(its performance configurations; those for Hopper do not)."""
EAGER_EXPERTS = re.compile(r"nemotron-?3")
"""Families whose recipes leave experts out of the graphs (Megatron-Bridge 0.6.2, perf_recipes/nemotronh: attention,
Mamba and router are captured; those of Qwen3 and DeepSeek-V3 capture the whole iteration)."""
BLACKWELL = re.compile(r"\bg?b[23]00")
COMPILED = re.compile(r"compil")
TENSOR_CORE_REDUCES = re.compile(r"tpu[ -]?v?[2-6]")
"""TPUs whose recipes leave reduce-scatters to the tensor core; those of 7x offload them to the sparse cores, and
XLA's flags for GPUs run them on a stream of their own (AI-Hypercomputer/tpu-recipes and maxtext, XLA flags)."""


def habits_of(row: Row) -> tuple[Habits, str]:
    """Return the habits of a row's framework, and what was assumed about it."""
    name = text(row, "framework")
    known = next((found for pattern, found in FRAMEWORKS if re.search(pattern, name.lower())), None)
    if known is None:
        return MEGATRON, f"framework {name or 'not stated'}: run as Megatron-Core"
    year = whole(row, "year")
    if known is MEGATRON and year is not None and "megatron-lm" in name.lower():
        known = next((old for last, old in MEGATRON_YEARS if year <= last), known)
    if year is not None and year <= LISTS_UNTIL and "deepspeed" in name.lower():
        known = MEGATRON_2021
    if year is not None and year >= OVERLAPS_FROM and known is DEEPSPEED_3D:
        known = replace(DEEPSPEED_3D, overlaps_zero3=True)
    if known is TITAN and _compiled(row):
        known = TITAN_COMPILED
    if known is XLA and not TENSOR_CORE_REDUCES.search(text(row, "hardware").lower()):
        known = replace(XLA, overlaps_zero3=True)
    if known is BRIDGE and _graphs(row):
        known = BRIDGE_GRAPHS
    return known, f"software {known.profile}: {software(known.profile).description}"


def _graphs(row: Row) -> bool:
    """Whether the recipe captured CUDA graphs.

    >>> _graphs({"hardware": "GB200", "notes": "NeMo container 26.06; precision=MXFP8"})
    True
    """
    found = CONTAINER.search(f"{text(row, 'framework')} {text(row, 'notes')}".lower())
    if found is None or (found[1] or GRAPHS_SINCE) < GRAPHS_SINCE:
        return False
    if EAGER_EXPERTS.search(text(row, "model").lower()):
        return False
    return bool(BLACKWELL.search(text(row, "hardware").lower()))


def _compiled(row: Row) -> bool:
    """Whether torch.compile ran: as the notes say; casts to 8 bits are fast only in compiled code."""
    return bool(COMPILED.search(text(row, "notes").lower())) or text(row, "dtype").lower() in (
        "fp8",
        "nvfp4",
    )


def attention_of(row: Row) -> str:
    """Return the attention kernel a row names, or ``auto``.

    >>> attention_of({"hardware": "B200", "notes": "FA3 on H200, FA4 beta on B200"})
    'fa4'
    """
    said = f"{text(row, 'framework')} {text(row, 'notes')}".lower()
    if TRITON.search(said):
        return "fa1" if (whole(row, "year") or TRITON_1) <= TRITON_1 else "triton"
    hardware = text(row, "hardware").lower()
    placed = FLASH_ON.findall(said)
    if placed:
        here = (f"fa{version}" for version, device in placed if hardware.startswith(device))
        return next(here, "auto")
    named = next((kernel for pattern, kernel in KERNELS if re.search(pattern, said)), "auto")
    return "fa2" if named == "auto" and _early_nemo(said) else named


def _early_nemo(said: str) -> bool:
    """Whether a row's words name a NeMo before `NEMO_CUDNN`.

    >>> _early_nemo("nemo 1.x/megatron-core fp8, dgx h100, 24.07"), _early_nemo("nemo 24.09")
    (True, False)
    """
    versions = NEMO_VERSION.findall(said)
    return "nemo" in said and "mlperf" not in said and bool(versions) and max(versions) < NEMO_CUDNN


def year_of(row: Row) -> float:
    """Return the year of a row's libraries (0: not stated); an MLPerf round's to a part of it.

    >>> year_of({"year": "2023", "notes": "MLPerf v3.1 closed"}), year_of({"year": "2023"})
    (2023.8, 2023.0)
    """
    named = (
        date for name, date in ROUNDS.items() if f"mlperf {name}" in text(row, "notes").lower()
    )
    return next(named, float(whole(row, "year") or 0))
