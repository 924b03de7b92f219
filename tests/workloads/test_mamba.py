"""Mamba-2 layers: the scan's kernels by hand, and what the layer keeps."""

from dataclasses import replace

import pytest

from sim.kernels import kernel_time
from sim.kernels.shapes import Chunked, Gemm
from sim.program import Compute
from topologies.devices import DEVICES, device
from workloads.counts import flops_per_token, num_params
from workloads.layers import layer_parts
from workloads.layers.mamba import mamba_block
from workloads.layers.mtp import mtp_parts
from workloads.layers.scan import Scan, scan_backward, scan_forward
from workloads.layers.sizes import Sizes
from workloads.model import LayerKind
from workloads.models import model
from workloads.plan import Plan

# Two chunks of 128 tokens; 2 heads of 4 values with states of 8, in one group.
SCAN = Scan(
    tokens=256, heads=2, groups=1, head=4, state=8, length=256, value=2.0, dtype="bf16"
)  # fmt: skip
X, B, STEP, STATES = 256 * 2 * 4 * 2, 256 * 8 * 2, 256 * 2 * 4, 2 * 2 * 4 * 8
SUPER = model("nemotron-3-super-120b-a12b")
PLAN = Plan(tp=1, dp=1, microbatch=1, global_batch=1, seq_len=8192, software="megatron-core")


def by_name(ops: tuple[Compute, ...]) -> dict[str, Chunked]:
    return {op.name: op.kernel for op in ops if isinstance(op.kernel, Chunked)}


def test_forward_by_hand() -> None:
    """States leave in fp32 and pass on in 16 bits; the output reads x, its gate, states and C, and writes two."""
    kernels = by_name(scan_forward(SCAN))
    assert kernels["scan.states"].nbytes == X + B + 2 * STEP + 4 * STATES
    assert kernels["scan.states"].flops == 2 * 256 * 2 * 4 * 8
    assert kernels["scan.passing"].nbytes == (4 + 2) * STATES
    assert kernels["scan.products"].nbytes == 2 * B + 2 * 128 * 128 * 4
    assert kernels["scan.products"].flops == 2 * 2 * 128 * 128 * 8
    output = kernels["scan.output"]
    assert output.nbytes == 2 * 128 * 128 * 4 + B + 2 * STEP + 2 * STATES + 4 * X
    # of four tiles of 64 a chunk and head, three are on or below the diagonal
    assert output.values == 2 * 2 * 3 * 64 * 64 + 2 * 256 * 2 * 4
    assert output.flops == 2 * 256 * 2 * 4 * 8 + 2 * SCAN.scores * 4


def test_backward_makes_states_and_products_again() -> None:
    forward, backward = by_name(scan_forward(SCAN)), by_name(scan_backward(SCAN))
    for name in ("scan.steps", "scan.states", "scan.products"):
        assert backward[name] == forward[name]
    gradients = ("scan.dstates", "scan.dx", "scan.db", "scan.dc", "scan.dproducts")
    products = sum(backward[name].flops for name in gradients)
    # of x, B and C through the states and of states themselves, and twice through scores
    assert products == 4 * 2 * 256 * 2 * 4 * 8 + 2 * 2 * 2 * 2 * 3 * 64 * 64 * 4


def test_bytes_grow_with_tokens_and_heads() -> None:
    def total(scan: Scan) -> float:
        return sum(op.kernel.nbytes for op in scan_backward(scan))

    assert total(replace(SCAN, tokens=512)) == pytest.approx(2 * total(SCAN))
    assert total(replace(SCAN, heads=4, groups=2)) == pytest.approx(2 * total(SCAN))


def test_shorter_sequences_are_one_chunk() -> None:
    short = replace(SCAN, tokens=256, length=64)
    assert short.chunk == 64
    assert short.scores == 256 * 2 * 64


def test_layer_keeps_projection_and_output() -> None:
    """Between its projections a layer keeps what they exchange, and the scan's output before its gate."""
    parts = {
        part.name: part for part in mamba_block(Sizes(SUPER, PLAN), LayerKind("mamba", "none"))
    }
    inner, width = 8192, 2 * 8192 + 2 * 8 * 128 + 128
    assert parts["mamba_conv"].saved == 8192 * width * 2
    assert parts["scan"].saved == 8192 * inner * 2
    assert parts["mamba_gate"].saved == parts["mamba_out"].saved == 8192 * inner * 2
    gemms = [op for op in parts["mamba_in"].forward["compute"] if isinstance(op.kernel, Gemm)]
    assert gemms[0].kernel.n == width


def test_several_sequences_are_copied_into_order() -> None:
    plan = replace(PLAN, microbatch=2, global_batch=2)
    one, two = (
        {p.name: p for p in mamba_block(Sizes(SUPER, each), LayerKind("mamba", "none"))}["scan"]
        for each in (PLAN, plan)
    )
    names = [op.name for op in two.forward["compute"]]
    assert names[:2] == ["scan.in", "scan.out"]
    assert "scan.in" not in [op.name for op in one.forward["compute"]]


@pytest.mark.parametrize("name", DEVICES)
def test_every_device_has_a_time(name: str) -> None:
    """Bytes bound from below: no scan kernel is faster than its traffic at the data sheet's bandwidth."""
    each = device(name)
    dtype = "bf16" if "bf16" in each.peak else "fp16"
    kernel = Chunked(flops=1e9, nbytes=1e8, values=1e6, dtype=dtype)
    assert kernel_time(kernel, each) > kernel.nbytes / each.memory_bandwidth
    assert kernel_time(replace(kernel, flops=1e12), each) > 1e12 / each.peak[dtype]


def test_weighted_values_are_those_of_the_kernels() -> None:
    """B by head in four kernels' operands or results, scores in four, x-sized tensors in the rest."""
    values = sum(k.values for k in by_name((*scan_forward(SCAN), *scan_backward(SCAN))).values())
    b_by_head, x, scores = 256 * 2 * 8, 256 * 2 * 4, 2 * 2 * 3 * 64 * 64
    # the backward's states under the forward's name count once here
    assert values == 3 * b_by_head + 4 * scores + 7 * x


def test_prediction_layer_applied_twice() -> None:
    """Megatron-Bridge counts 831e12 / 9,856 FLOPs a token for Super at 8,192, prediction included."""
    counted = flops_per_token(SUPER, 8192, "causal", mtp=True)
    assert counted == pytest.approx(831e12 / 9856, rel=0.02)
    once = flops_per_token(replace(SUPER, mtp_passes=1), 8192, "causal", mtp=True)
    without = flops_per_token(SUPER, 8192, "causal")
    assert counted - once == pytest.approx(once - without)


def test_prediction_layer_has_its_weights_once() -> None:
    one, two = (
        mtp_parts(Sizes(replace(SUPER, mtp_passes=passes), PLAN), layer_parts) for passes in (1, 2)
    )
    assert len(two) == 2 * len(one)
    assert sum(p.weights for p in two) == sum(p.weights for p in one)
    assert sum(p.expert_weights for p in two) == sum(p.expert_weights for p in one)


def test_lightning_is_nano_and_a_prediction_layer() -> None:
    nano, lightning = (
        model(name) for name in ("nemotron-3-nano-30b-a3b", "nemotron-3.5-lightning-30b-a3b")
    )
    assert num_params(nano) == num_params(lightning)
    assert flops_per_token(nano, 8192) == flops_per_token(lightning, 8192)
    # 807e12 / 28,672 against 776e12 / 34,816: what Megatron-Bridge counts for two predictions
    more = flops_per_token(lightning, 8192, "causal", mtp=True)
    more -= flops_per_token(lightning, 8192, "causal")
    assert more == pytest.approx(807e12 / 28672 - 776e12 / 34816, rel=0.04)
