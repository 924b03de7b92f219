"""Kernels of a scan in chunks: small products on the matrix units, decays of their scores, and much traffic.

Such kernels are written in Triton. Where none of a device was measured, attention's of the same compiler stand for
them (`attention.GENERATIONS`): ``rate`` what its products reach, ``softmax`` what one exponential a score costs. With
c the seconds of products and decays, m those of the traffic:

    start + the longer of c and m + ``exposed`` of the shorter

``exposed`` is that of the device's matrix products (`gemm`).
"""

from sim.device import Device
from sim.kernels.attention import attention_constants
from sim.kernels.constants import constant
from sim.kernels.gemm import gemm_constants
from sim.kernels.shapes import Chunked

SCORE_FLOPS = 4.0
"""FLOPs a score and value of a head in attention, whose ``softmax`` is counted in values of a head."""


def chunked_time(kernel: Chunked, device: Device) -> float:
    """Return the seconds of one kernel of a chunked scan."""
    c = attention_constants(device, "triton", "fwd", kernel.dtype)
    compute = (kernel.flops + SCORE_FLOPS * c.softmax * kernel.scores) / c.rate
    memory = kernel.nbytes / c.bandwidth
    exposed = gemm_constants(device, kernel.dtype).exposed
    start = constant(device, ("memory",), "start")
    return start + max(compute, memory) + exposed * min(compute, memory)
