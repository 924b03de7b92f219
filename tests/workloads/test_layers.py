"""Every kernel and collective of a layer is there, once; sizes by hand; FLOPs and bytes add up."""

from collections import Counter

import pytest

from sim.engine import simulate
from sim.kernels.shapes import Attention, Gemm
from sim.program import Collective, Compute
from tests.sim.hand_made import star
from topologies import cluster
from workloads.counts import layer_flops_per_token, layer_params
from workloads.layers import Sizes, layer_parts
from workloads.lower import lower
from workloads.model import Model
from workloads.plan import Plan

LLAMA = Model(
    name="llama", num_layers=2, hidden_size=1024, num_heads=16, num_kv_heads=4, head_dim=64,
    ffn_size=4096, vocab_size=32000,
)  # fmt: skip
GPT = Model(
    name="gpt", num_layers=2, hidden_size=1024, num_heads=16, num_kv_heads=16, head_dim=64,
    ffn_size=4096, vocab_size=51200, gated_mlp=False, tied_embeddings=True, positions="learned",
    max_positions=2048, norm="layer", norm_bias=True, qkv_bias=True, out_bias=True, mlp_bias=True,
)  # fmt: skip
EXPERTS = Model(
    name="experts", num_layers=2, hidden_size=1024, num_heads=16, num_kv_heads=16, head_dim=64,
    ffn_size=4096, vocab_size=32000, num_experts=8, experts_per_token=2, expert_ffn_size=2048,
)  # fmt: skip


def words(text: str) -> list[str]:
    return text.split()


def played(model: Model, plan: Plan) -> Counter[str]:
    """Names of all spans of one rank of the step."""
    timeline = simulate(lower(model, plan), cluster("h100-fat-tree", plan.num_devices))
    return Counter(span.op.name for span in timeline.spans(timeline.class_of_rank(0)))


def test_every_op_of_a_llama_layer_with_sequence_parallelism() -> None:
    """Gathers before column-parallel products, reduce-scatters after row-parallel ones, and the reverse back."""
    forward = [
        "attn_norm",
        "qkv.all_gather",
        "qkv",
        "rotary",
        "attention",
        "attn_out",
        "attn_out.reduce_scatter",
        "attn_add",
        "mlp_norm",
        "mlp_up.all_gather",
        "mlp_up",
        "mlp_act",
        "mlp_down",
        "mlp_down.reduce_scatter",
        "mlp_add",
    ]
    backward = [
        "mlp_down.all_gather",
        "mlp_down.dgrad",
        "mlp_down.wgrad",
        "mlp_act.bwd",
        "mlp_up.dgrad",
        "mlp_up.all_gather",
        "mlp_up.reduce_scatter",
        "mlp_up.wgrad",
        "mlp_norm.bwd",
        "mlp_norm.sum",
        "attn_out.all_gather",
        "attn_out.dgrad",
        "attn_out.wgrad",
        "attention.bwd",
        "rotary.bwd",
        "qkv.dgrad",
        "qkv.all_gather",
        "qkv.reduce_scatter",
        "qkv.wgrad",
        "attn_norm.bwd",
        "attn_norm.sum",
    ]
    ends = [
        "embedding",
        "embedding.reduce_scatter",
        "final_norm",
        "head.all_gather",
        "head",
        "loss",
        "loss.max",
        "loss.target",
        "loss.sum",
        "loss.bwd",
        "head.dgrad",
        "head.all_gather",
        "head.reduce_scatter",
        "head.wgrad",
        "final_norm.bwd",
        "embedding.all_gather",
        "embedding.grad",
        "grad_norm",
        "grad_norm.all_reduce",
        "adam",
    ]
    found = played(
        LLAMA,
        Plan(tp=4, sequence_parallel=True, global_batch=1, seq_len=512, software="megatron-core"),
    )
    expected = Counter(forward + backward + forward + backward + ends)
    assert found == expected


def test_every_op_of_a_gpt_layer_without() -> None:
    """One all-reduce after each row-parallel product forward, one after each column-parallel one back."""
    forward = [
        "attn_norm",
        "qkv",
        "scores",
        "softmax",
        "attn_dropout",
        "scores_values",
        "context.transpose",
        "attn_out",
        "attn_out.all_reduce",
        "attn_add",
        "mlp_norm",
        "mlp_up",
        "mlp_act",
        "mlp_down",
        "mlp_down.all_reduce",
        "mlp_add",
    ]
    backward = [
        "mlp_add.bwd",
        "mlp_down.dgrad",
        "mlp_down.wgrad",
        "mlp_down.bias_grad",
        "mlp_act.bwd",
        "mlp_up.dgrad",
        "mlp_up.all_reduce",
        "mlp_up.wgrad",
        "mlp_up.bias_grad",
        "mlp_norm.bwd",
        "mlp_norm.sum",
        "attn_add.bwd",
        "attn_out.dgrad",
        "attn_out.wgrad",
        "attn_out.bias_grad",
        "context.transpose.bwd",
        "scores_values.dgrad",
        "values.grad",
        "attn_dropout.bwd",
        "softmax.bwd",
        "queries.grad",
        "keys.grad",
        "qkv.join",
        "qkv.dgrad",
        "qkv.all_reduce",
        "qkv.wgrad",
        "qkv.bias_grad",
        "attn_norm.bwd",
        "attn_norm.sum",
    ]
    ends = [
        "embedding",
        "embedding.all_reduce",
        "positions",
        "final_norm",
        "head",
        "loss",
        "loss.max",
        "loss.target",
        "loss.sum",
        "loss.bwd",
        "head.dgrad",
        "head.all_reduce",
        "head.wgrad",
        "final_norm.bwd",
        "embedding.grad",
        "grad_norm",
        "grad_norm.all_reduce",
        "adam",
    ]
    found = played(
        GPT, Plan(tp=4, global_batch=1, seq_len=512, software="megatron-2022", dropout=True)
    )
    assert found == Counter(forward + backward + forward + backward + ends)


def test_every_op_of_a_layer_of_experts() -> None:
    """Router, dispatch, grouped products, combine; both all-to-alls come back in the backward: 4 a layer."""
    plan = Plan(dp=4, ep=4, global_batch=4, seq_len=512, software="megatron-core")
    timeline = simulate(lower(EXPERTS, plan), cluster("h100-fat-tree", 4))
    ops = [span.op for span in timeline.spans(0)]
    found = Counter(op.name for op in ops)
    for name in words(
        """router topk expert_up expert_act expert_down router.dgrad router.wgrad topk.bwd expert_up.dgrad
        expert_up.wgrad expert_act.bwd expert_down.dgrad expert_down.wgrad"""
    ):
        assert found[name] == 2, name
    travels = [op for op in ops if isinstance(op, Collective) and op.axis == "ep"]
    assert [op.kind for op in travels] == ["all_to_all"] * 8


def test_one_device_communicates_nothing() -> None:
    timeline = simulate(
        lower(LLAMA, Plan(global_batch=1, seq_len=512)), cluster("h100-fat-tree", 1)
    )
    assert not [s for s in timeline.spans(0) if isinstance(s.op, Collective)]
    assert star(1).num_devices == 1


def sizes(model: Model, **fields) -> Sizes:
    return Sizes(model, Plan(**{"global_batch": 1, "seq_len": 2048, **fields}))


def kernels(model: Model, pass_: str, **fields) -> list[Compute]:
    made = sizes(model, **fields)
    return [
        op
        for part in layer_parts(made, model.layer_kinds[0])
        for ops in (part.forward if pass_ == "forward" else part.both).values()
        for op in ops
        if isinstance(op, Compute)
    ]


def test_shapes_of_the_products_of_a_gpt_layer() -> None:
    """(tokens, outputs, inputs) of a quarter of the layer: 3h/t, h, 4h/t."""
    found = [k.kernel for k in kernels(GPT, "forward", tp=4, software="megatron-core")]
    shapes = [(k.m, k.n, k.k) for k in found if isinstance(k, Gemm)]
    assert shapes == [(2048, 768, 1024), (2048, 1024, 256), (2048, 1024, 1024), (2048, 1024, 1024)]


def test_shapes_of_a_grouped_query_gated_layer() -> None:
    """16 query and 4 key and 4 value heads of 64; two up-projections in one product."""
    found = [k.kernel for k in kernels(LLAMA, "forward", software="megatron-core")]
    shapes = [(k.n, k.k) for k in found if isinstance(k, Gemm)]
    assert shapes == [(1536, 1024), (1024, 1024), (8192, 1024), (1024, 4096)]
    (core,) = [k for k in found if isinstance(k, Attention)]
    assert (core.heads, core.kv_heads, core.seq_q, core.causal) == (16, 4, 2048, True)


@pytest.mark.parametrize("model", [LLAMA, GPT])
@pytest.mark.parametrize("fields", [{}, {"tp": 4}, {"cp": 2}, {"microbatch": 3, "global_batch": 3}])
def test_forward_flops_are_those_of_the_model(model, fields) -> None:
    """The products and the causal core of all ranks: the model's FLOPs of a layer, per token."""
    done = sum(
        k.kernel.flops for k in kernels(model, "forward", software="megatron-core", **fields)
    )
    plan = Plan(**{"global_batch": 1, "seq_len": 2048, **fields})
    tokens = plan.microbatch * plan.seq_len
    per_token = layer_flops_per_token(model, model.layer_kinds[0], 2048, "causal")
    assert done * plan.tp * plan.cp == pytest.approx(per_token * tokens, rel=1e-3)


@pytest.mark.parametrize("model", [LLAMA, GPT])
def test_backward_products_do_twice_the_work(model) -> None:
    def products(pass_: str) -> float:
        found = (k.kernel for k in kernels(model, pass_, software="megatron-core"))
        return sum(k.flops for k in found if isinstance(k, Gemm))

    assert products("backward") == 2 * products("forward")


@pytest.mark.parametrize("model", [LLAMA, GPT, EXPERTS])
def test_weights_are_those_of_the_model(model) -> None:
    parts = layer_parts(sizes(model), model.layer_kinds[0])
    assert sum(p.weights for p in parts) == layer_params(model, model.layer_kinds[0]).total


@pytest.mark.parametrize("degree", [2, 4, 8])
def test_tensor_parallel_ranks_hold_the_model_together(degree) -> None:
    """All matrices are cut; norms and the biases of row-parallel layers are on every rank."""
    kind = LLAMA.layer_kinds[0]
    whole = sum(p.weights for p in layer_parts(sizes(LLAMA), kind))
    norms = 2 * LLAMA.hidden_size
    part = sum(p.weights for p in layer_parts(sizes(LLAMA, tp=degree if degree < 8 else 4), kind))
    t = degree if degree < 8 else 4
    assert (part - norms) * t + norms == whole


def test_sequence_parallelism_moves_the_bytes_of_the_all_reduces() -> None:
    """Two all-reduces forward of 2 tbh (n-1)/n each are two gathers and two reduce-scatters of tbh."""

    def moved(**fields) -> float:
        found = 0.0
        for part in layer_parts(sizes(LLAMA, tp=4, **fields), LLAMA.layer_kinds[0]):
            for ops in part.forward.values():
                for op in ops:
                    if isinstance(op, Collective):
                        found += op.nbytes * (2 if op.kind == "all_reduce" else 1)
        return found

    assert moved() == moved(sequence_parallel=True) == 2 * 2 * 2048 * 1024 * 2.0


@pytest.mark.parametrize("context", ["all_gather", "ring", "ulysses"])
def test_context_parallel_ranks_share_the_scores(context) -> None:
    """However the core is spread, all ranks together do the causal half of s x s once."""
    found = kernels(GPT, "forward", cp=4, context=context, software="megatron-core")
    done = sum(k.kernel.flops for k in found if isinstance(k.kernel, Attention))
    assert done * 4 == pytest.approx(2.0 * 16 * 2048 * 2048 / 2 * 128)


def test_ring_attention_hides_its_shifts() -> None:
    """Four rounds of products, three shifts of keys and values, each beside a round."""
    made = sizes(GPT, cp=4, context="ring", software="megatron-core")
    (core,) = [p for p in layer_parts(made, GPT.layer_kinds[0]) if p.name == "attention"]
    assert [op.name for op in core.forward["compute"] if isinstance(op, Compute)] == [
        f"attention.{i}" for i in range(4)
    ]
    shifts = [op for op in core.forward["cp"] if isinstance(op, Collective)]
    assert [op.nbytes for op in shifts] == [2 * 512 * 1024 * 2.0] * 3


def test_experts_get_every_token_as_often_as_it_chooses() -> None:
    """8 experts over 4 ranks, 2 of them a token: rows of all ranks are twice the tokens of all ranks."""
    found = [k.kernel for k in kernels(EXPERTS, "forward", dp=4, ep=4, global_batch=4)]
    (up, down) = [k for k in found if hasattr(k, "groups")]
    assert (up.groups, up.n, up.k) == (2, 4096, 1024)
    assert up.groups * up.m * 4 == 2 * 2048 * 4
    assert (down.n, down.k) == (1024, 2048)
