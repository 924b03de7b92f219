"""Precision: what training in 4 bits leaves in more bits, where a model's makers mix precisions (``fp4_mixed``).

Nemotron 3 white paper (NVIDIA 2025), section on NVFP4: the last 15 % of the layers, attention's projections and those
to and from latent experts stay in 16 bits, Mamba's output projection in 8. NVIDIA-NeMo Megatron-Bridge 0.6.2
(``nemotron_3_super_bf16_with_nvfp4_mixed``) has 14 of Super's 88 layers at the end in bf16.
"""

from dataclasses import replace
from math import ceil

from sim.kernels.shapes import DTYPE_BYTES
from workloads.layers.sizes import Sizes

LAST = 0.15
"""Share of the layers, at the end, that stay wide."""
KEPT = {"full": "", "window": "", "latent": "", "mamba_out": "fp8"}
"""Precision of what stays in more bits in every layer; empty: the activations'."""


def kept(sizes: Sizes, what: str) -> Sizes:
    """Return sizes whose products have the precision ``what`` keeps."""
    if what not in KEPT or not _mixes(sizes):
        return sizes
    return replace(sizes, plan=replace(sizes.plan, dtype=KEPT[what] or sizes.wide_dtype))


def of_layer(sizes: Sizes, number: int) -> Sizes:
    """Return sizes whose products have the precision of layer ``number`` of the model, from 0."""
    layers = sizes.model.num_layers
    if number < layers - ceil(LAST * layers) or not _mixes(sizes):
        return sizes
    return replace(sizes, plan=replace(sizes.plan, dtype=sizes.wide_dtype))


def _mixes(sizes: Sizes) -> bool:
    return sizes.model.fp4_mixed and DTYPE_BYTES[sizes.plan.dtype] < DTYPE_BYTES["fp8"]
