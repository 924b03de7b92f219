"""Memory against what others measured: bytes by cause, and rows of published runs within a few percent."""

from dataclasses import replace

import pytest

from sim.engine import simulate
from sim.memory import memory_curve, memory_peak
from sim.metrics import communication_volume
from sim.program import Collective
from topologies import cluster
from workloads.lower import lower
from workloads.model import Model
from workloads.models import model as preset
from workloads.plan import Plan

GIB = 2**30
SMALL = Model(
    name="small", num_layers=4, hidden_size=512, num_heads=8, num_kv_heads=8, head_dim=64,
    ffn_size=2048, vocab_size=2048,
)  # fmt: skip
WEIGHTS = 4 * (16 * 512**2 + 2 * 512) + 2 * 2048 * 512 + 512


def run(model: Model = SMALL, machine: str = "h100-fat-tree", **fields):
    plan = Plan(**{"global_batch": 8, "seq_len": 256, **fields})
    return simulate(lower(model, plan), cluster(machine, plan.num_devices))


def most(model: Model = SMALL, machine: str = "h100-fat-tree", **fields) -> float:
    """Most bytes any place holds."""
    timeline = run(model, machine, **fields)
    return max(memory_peak(timeline, c).nbytes for c in range(timeline.num_classes))


def held(category: str, **fields) -> float:
    """Most bytes of one category on rank 0."""
    curve = memory_curve(run(**fields), 0)
    if category not in curve.categories:
        return 0.0
    return float(curve.held[:, curve.categories.index(category)].max())


@pytest.mark.parametrize(
    ("fields", "measured"),
    [
        ({"tp": 2, "dp": 4, "global_batch": 16}, 60.7),
        ({"tp": 4, "dp": 2, "global_batch": 8}, 39.1),
        ({"tp": 8, "dp": 1, "global_batch": 4}, 28.3),
        ({"pp": 2, "dp": 4, "global_batch": 16}, 66.5),
    ],
)
def test_twelve_layers_of_llama_70b_on_b200(fields, measured) -> None:
    """Peak allocated GiB of Megatron-Core 0.14 (MooreThreads/SimuMax, docs/b200, release v1.2)."""
    model = replace(preset("llama3-70b"), name="llama3-70b-12", num_layers=12)
    shared = {"zero": 1, "seq_len": 4096, "sequence_parallel": fields.get("tp", 1) > 1}
    found = most(model, "b200-fat-tree", **shared, **fields)
    assert found / GIB == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize(
    ("name", "microbatch", "pp", "measured"),
    [("zb-gpt-1.5b", 6, 8, 30), ("zb-gpt-6.2b", 3, 8, 39), ("zb-gpt-14.6b", 1, 16, 32)],
)
def test_1f1b_of_the_zero_bubble_paper(name, microbatch, pp, measured) -> None:
    """GiB of arXiv:2401.10241, table 4, on A100: bf16 with fp32 gradients, unfused attention, dropout."""
    found = most(
        preset(name), "a100-superpod", pp=pp, microbatch=microbatch, global_batch=3 * pp * microbatch,
        seq_len=1024, software="megatron-2022", dropout=True,
    )  # fmt: skip
    assert found / GIB == pytest.approx(measured, rel=0.06)


def test_fsdp_keeps_fp32_weights_and_no_second_copy() -> None:
    """4 + 4 + 8 bytes a parameter over 8 ranks."""
    states = [held(c, dp=8, zero=3, software="torch-fsdp") for c in ("parameters", "optimizer")]
    assert states == pytest.approx([4 * WEIGHTS / 8, 8 * WEIGHTS / 8])


def test_sharded_gradients_stay_whole_until_the_last_microbatch_of_a_pipeline() -> None:
    """ZeRO-2 in a pipeline accumulates whole fp32 gradients; alone it reduces each microbatch and holds a shard."""
    fields = {"dp": 4, "pp": 2, "software": "megatron-core"}
    whole = held("gradients", zero=0, **fields)
    assert held("gradients", zero=2, **fields) == whole
    each = {"zero": 2, "dp": 8, "reduce_each": "on"}
    assert held("gradients", **each) < held("gradients", **each | {"reduce_each": "off"})


@pytest.mark.parametrize(("reduce_each", "reductions"), [("on", 4), ("off", 1)])
def test_reduce_each_says_how_often_gradients_are_reduced(reduce_each, reductions) -> None:
    fields = {"dp": 2, "zero": 3, "global_batch": 8, "software": "megatron-core"}
    timeline = run(**fields, reduce_each=reduce_each)
    sent = sum(
        span.op.nbytes
        for span in timeline.spans(0, "reduce")
        if isinstance(span.op, Collective) and span.op.kind == "reduce_scatter"
    )
    assert sent == reductions * 4 * WEIGHTS


def test_secondary_shards_gather_for_the_backward_among_neighbours() -> None:
    """hpZ: forward gathers 7/8 over all, backward 1/2 among pairs (ZeRO++, arXiv:2306.10209, section 3.2)."""
    plain = communication_volume(run(dp=8, zero=3), 0)
    near = communication_volume(run(dp=8, zero=3, secondary=2), 0)
    weights = 2.0 * WEIGHTS
    assert near["dp.local"] == pytest.approx(weights / 2)
    assert plain["dp"] - near["dp"] == pytest.approx(weights * 7 / 8)
    more = held("parameters", dp=8, zero=3, secondary=2) - held("parameters", dp=8, zero=3)
    assert more == pytest.approx(weights / 2)


def test_recompute_every_second_layer_keeps_the_others() -> None:
    full, half, none = (
        held("activations", global_batch=1, recompute=r, **more)
        for r, more in (("full", {}), ("full", {"recompute_every": 2}), ("none", {}))
    )
    assert full < half < none


def test_recompute_by_op_keeps_half_of_the_products_and_repeats_no_attention() -> None:
    fields = {"global_batch": 1, "recompute": "selective", "recompute_modules": ("op",)}
    again = [
        s.op.name for s in run(**fields).spans(0, "compute") if getattr(s.op, "phase", "") == "R"
    ]
    assert "qkv" in again
    assert "attention" not in again
    assert held("activations", **fields) < held("activations", global_batch=1)


def test_offloaded_activations_leave_and_come_back() -> None:
    """All but the last layer's leave: what is left at once is less, and what travels is the same both ways."""
    fields = {"global_batch": 1, "seq_len": 4096, "recompute": "full"}
    timeline = run(**fields, offload=("activations",))
    out, back = (
        sum(s.op.nbytes for s in timeline.spans(0, stream) if isinstance(s.op, Collective))
        for stream in ("offload", "reload")
    )
    assert out == back > 0
    assert held("activations", **fields, offload=("activations",)) < held("activations", **fields)


def test_an_offloaded_optimizer_takes_no_device_memory_and_steps_over_the_host() -> None:
    """Out and back 2 bytes a parameter at 0.85 x 63 GB/s, 30 bytes of host memory at 0.7 x 76.8 GB/s."""
    timeline = run(offload=("optimizer",), software="megatron-core")
    assert held("optimizer", offload=("optimizer",)) == 0.0
    spans = {
        s.op.name: s.end - s.start for s in timeline.spans(0, "compute") if hasattr(s.op, "axis")
    }
    assert spans["grads.out"] == pytest.approx(2 * WEIGHTS / (0.85 * 63e9) + 10e-6)
    assert spans["adam.host"] == pytest.approx(30 * WEIGHTS / (0.7 * 76.8e9) + 10e-6)


@pytest.mark.parametrize(
    ("loss", "bytes_a_logit"),
    [("vocab_parallel", 6), ("eager", 14), ("dropped", 12), ("compiled", 4), ("chunked", 0)],
)
def test_logits_by_kind_of_loss(loss, bytes_a_logit) -> None:
    assert held("logits", global_batch=1, loss=loss) == 256 * 2048 * bytes_a_logit


def test_compiled_backwards_make_norms_and_activations_again() -> None:
    """A layer of s tokens keeps x, h, q, k, v, o and the 4 h up-projected; not two norms, nor the 4 h activated."""
    fields = {"global_batch": 1, "dp": 1}
    once = 256 * 512 * 2
    kept, all_of_it = (held("activations", software=s, **fields) for s in ("torch-compiled", "xla"))
    assert all_of_it - kept == 4 * (2 + 4) * once
    again = {"recompute": "full", **fields}
    assert held("activations", software="torch-compiled", **again) == held(
        "activations", software="xla", **again
    )


def test_uneven_stages_hold_the_states_of_their_own_layers() -> None:
    """Three layers and the embedding, then one and the head: 18 bytes a parameter each (2 + 4 + 12)."""
    timeline = run(pp=2, layout=(3, 1), software="megatron-2022")
    layer, ends = 16 * 512**2 + 2 * 512, 2048 * 512
    for rank_class in range(timeline.num_classes):
        place = timeline.place(rank_class)
        curve = memory_curve(timeline, rank_class)
        states = sum(
            float(curve.held[-1, curve.categories.index(part)])
            for part in ("parameters", "gradients", "optimizer")
        )
        weights = (3 * layer + ends, layer + ends + 512)[place]
        assert states == pytest.approx(18 * weights)


def test_deepspeed_widens_one_gradient_at_a_time() -> None:
    """BF16_Optimizer: bf16 gradients of all, and an fp32 copy of the largest (the gated up-projection, 4096 x 512)."""
    fields = {"software": "megatron-deepspeed", "dp": 2, "zero": 1}
    assert held("buffers", **fields) == pytest.approx(2 * WEIGHTS + 4 * 4096 * 512)
    own = WEIGHTS / 2
    assert held("buffers", **fields, dtype="fp16") == pytest.approx(2 * WEIGHTS + 6 * own)


def test_placeholders_are_one_weight_of_each_shape() -> None:
    """Transformer Engine: qkv, attention output, up and down once, however many layers: 16 h^2 in bf16."""
    assert held("buffers", software="megatron-core") == pytest.approx(2 * 16 * 512**2, rel=2e-3)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {"offload": ("activations",)},
        {"offload": ("activations",), "pp": 2, "dp": 2, "schedule": "zb-h1"},
        {
            "offload": ("activations", "optimizer"),
            "pp": 2,
            "chunks": 2,
            "schedule": "interleaved",
            "recompute": "full",
        },
        {"dp": 8, "zero": 3, "secondary": 4},
        {"dp": 4, "pp": 2, "zero": 2},
        {"dp": 4, "zero": 1, "reduce_each": "on"},
        {
            "tp": 2,
            "sequence_parallel": True,
            "overlap_tp": "on",
            "recompute": "selective",
            "recompute_modules": ("op",),
        },
        {"recompute": "selective", "recompute_modules": ("mlp", "norm")},
        {"software": "torch-compiled", "pp": 2, "dp": 2, "schedule": "zb-h1"},
        {"software": "megatron-deepspeed", "pp": 2, "dp": 2, "zero": 1},
    ],
)
def test_every_switch_gives_back_what_it_takes(fields, merged) -> None:
    plan = Plan(**{"global_batch": 16, "seq_len": 512, **fields})
    timeline = simulate(
        lower(SMALL, plan), cluster("h100-fat-tree", plan.num_devices), merged=merged
    )
    for rank_class in range(timeline.num_classes):
        curve = memory_curve(timeline, rank_class)
        start = timeline.program.scripts[timeline.place(rank_class)].memory
        slack = 1e-6 * curve.total.max()
        for number, category in enumerate(curve.categories):
            assert curve.held[-1, number] == pytest.approx(start.get(category, 0.0), abs=slack)
            assert curve.held[:, number].min() >= -slack, category
