"""ZeRO-3 on use: which tensors, what is fetched again, what overlaps, and what the lists of 2021 cost the host."""

import pytest

from sim.engine import simulate
from sim.ledger import class_ledger
from sim.metrics import communication_volume
from sim.program import Collective, Compute, Program, Signal, Wait
from topologies import cluster
from workloads.counts import num_params
from workloads.layers.part import Part
from workloads.lower import lower
from workloads.models import model
from workloads.on_use import HOST_OPERATION, REDUCED, Tensor, reduced_together, released, tensors
from workloads.plan import Plan
from workloads.software import software

N, MILLION = 8, 1_000_000.0
GPT = model("gpt3-125m")


def plan(**fields) -> Plan:
    return Plan(
        **{"dp": N, "zero": 3, "global_batch": N, "seq_len": 512, "dtype": "fp16", "software": "megatron-deepspeed"}
        | fields
    )  # fmt: skip


def gathers(program: Program) -> list[Collective]:
    (script,) = program.scripts
    ops = [op for segment in script.streams["gather"] for op in segment.ops]
    return [op for op in ops if isinstance(op, Collective)]


def test_a_layer_has_four_tensors_and_its_vectors_count_with_them() -> None:
    parts = [
        Part(name="norm", weights=10.0),
        Part(name="qkv", weights=3 * MILLION),
        Part(name="out", weights=1 * MILLION),
        Part(name="experts", weights=5 * MILLION + 2.0, expert_weights=5 * MILLION),
        Part(name="last norm", weights=7.0),
    ]
    found = [(3 * MILLION + 10, False), (MILLION, False), (5 * MILLION, True), (9.0, False)]
    assert tensors(parts) == found


def test_what_is_used_again_soon_stays() -> None:
    """A GPT-3 layer of 453, 151, 604 and 604 million: between two uses of the third 1,208 million are used."""
    layer = [Tensor(v * MILLION) for v in (453, 151, 604, 604)]
    assert [t.values / MILLION for t in released(layer)] == [604, 151, 453]
    assert released([Tensor(v * MILLION) for v in (30, 10, 40, 40)]) == []


def test_gradients_are_reduced_in_buckets_of_half_a_billion() -> None:
    layer = [Tensor(v * MILLION) for v in (604, 400, 90, 20)] + [Tensor(MILLION, True)]
    assert [t.values / MILLION for t in reduced_together(layer)] == [604, 490, 20, 1]


def test_a_tensor_at_a_time_moves_the_bytes_of_whole_layers() -> None:
    ahead = gathers(lower(GPT, plan(overlap_param_gather="on")))
    use = gathers(lower(GPT, plan()))
    layers = [[op for op in found if op.name.endswith("layer")] for found in (ahead, use)]
    assert len(layers[1]) == 4 * len(layers[0])
    assert sum(op.nbytes for op in use) == pytest.approx(sum(op.nbytes for op in ahead), rel=1e-12)


@pytest.mark.parametrize(("recompute", "passes"), [("none", 2.0), ("full", 2.0 + 2.0 / 3.0)])
def test_a_large_layer_is_gathered_again_after_its_recomputation(recompute, passes) -> None:
    """Of 12 h^2 parameters a layer 8 h^2 are released between recomputation and backward (the last matrix stays)."""
    gpt3 = model("megatron-175b")
    program = lower(gpt3, plan(recompute=recompute, seq_len=2048))
    layers = sum(op.nbytes for op in gathers(program) if op.name.endswith("layer"))
    matrices = 2.0 * gpt3.num_layers * 12 * gpt3.hidden_size**2
    assert layers == pytest.approx(passes * matrices, rel=1e-3)


def test_xla_waits_for_its_reductions_and_copies_nothing() -> None:
    """Gathers run beside compute, one bf16 reduce-scatter a parameter alone; no bucket, so no copy into one."""
    (script,) = lower(GPT, plan(software="xla", dtype="bf16")).scripts
    ops = {
        name: [op for part in found for op in part.ops] for name, found in script.streams.items()
    }
    waits = [op for op in ops["compute"] if isinstance(op, Wait) and REDUCED in op.waits]
    sent = [op for op in ops["reduce"] if isinstance(op, Collective)]
    assert len(waits) == len(
        [op for op in ops["reduce"] if isinstance(op, Signal) and REDUCED in op.signals]
    )
    assert sum(op.nbytes for op in sent) == pytest.approx(2.0 * num_params(GPT), rel=1e-3)
    assert not any(
        op.name == "grads.bucket"
        for found in ops.values()
        for op in found
        if isinstance(op, Compute)
    )


def test_nothing_overlaps() -> None:
    """Everything the device waits for is exposed: the step is as long as its kernels and collectives in a row."""
    timeline = simulate(lower(GPT, plan()), cluster("h100-host", N))
    spans = [
        span
        for record in timeline.streams_of[0]
        for span in timeline.spans(0, record.name)
        if span.end > span.start
    ]
    assert sum(s.end - s.start for s in spans) == pytest.approx(timeline.step_time, rel=1e-9)
    assert class_ledger(timeline, 0).get("overlap_slowdown", 0.0) == 0.0
    assert communication_volume(timeline, 0)["dp"] > 0


def test_lists_cost_the_host_operations_for_every_rank() -> None:
    """12 layers of 4 matrices, the embedding, the last norm: 50 tensors, gathered twice (3 operations), reduced (4)."""

    def launches(ranks: int, name: str) -> float:
        program = lower(GPT, plan(dp=ranks, global_batch=ranks, software=name))
        timeline = simulate(program, cluster("h100-host", 8), launch=software(name).launch)
        return class_ledger(timeline, 0).get("launch", 0.0)

    more = launches(8, "megatron-2021") - launches(2, "megatron-2021")
    assert more == pytest.approx(6 * 50 * (2 * 3 + 4) * HOST_OPERATION, rel=1e-6)
    assert launches(8, "megatron-deepspeed") < 0.01 * more
