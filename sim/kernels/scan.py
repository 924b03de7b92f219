"""Kernels of a scan in chunks: small products on the matrix units, values weighted one by one, and much traffic.

Such kernels are written in Triton. Their products reach what attention of the same compiler does (where none was
measured on a device, its neighbours: `attention.GENERATIONS`). Decays, step sizes and gates weigh operands and results
between products on the ordinary units, whose speed goes with the data sheet's fp32 peak. With c the seconds of both, m
those of the traffic:

    start + the longer of c and m + ``exposed`` of the shorter

``exposed`` is that of the device's matrix products (`gemm`).
"""

from sim.device import Device
from sim.kernels.attention import attention_constants
from sim.kernels.constants import constant, peak
from sim.kernels.gemm import gemm_constants
from sim.kernels.shapes import Chunked

VALUE_FLOPS = 250.0
"""Operations at the fp32 peak that a weighted value costs: exponential, mask, conversions, and the waiting of kernels
too short to fill their pipelines. Fitted on Megatron-Bridge's 11 runs of Nemotron 3 Nano (B200, B300, GB200, GB300): of
100, 150, 200, 250 and 300 the one with the smallest median error. Nemotron 3 Super was not fitted: its Blackwell runs
were in view; its card's run on 64 H100 (27.59 s) was tried after and comes out at -8 %, with none of this at -14 %."""


def chunked_time(kernel: Chunked, device: Device) -> float:
    """Return the seconds of one kernel of a chunked scan."""
    c = attention_constants(device, "triton", "fwd", kernel.dtype)
    compute = kernel.flops / c.rate + kernel.values * VALUE_FLOPS / peak(device, "fp32")
    memory = kernel.nbytes / c.bandwidth
    exposed = gemm_constants(device, kernel.dtype).exposed
    start = constant(device, ("memory",), "start")
    return start + max(compute, memory) + exposed * min(compute, memory)
