"""Context parallelism: bytes a rank moves, scores of every round, who waits, and what documents change."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from sim.engine import simulate
from sim.errors import PlanError
from sim.kernels import kernel_time
from sim.kernels.shapes import Attention
from sim.ledger import ledgers, mean_ledger
from sim.program import Collective, Compute, Program
from sim.timeline import Timeline
from sim.units import GB, MiB
from topologies import cluster
from workloads.context_places import context_kinds
from workloads.layers import Sizes, layer_parts
from workloads.layers.part import Part
from workloads.lower import lower
from workloads.model import Model
from workloads.packing import Spread, pieces, step_scores
from workloads.plan import Plan
from workloads.plan_check import check

S, CP, HEADS, D = 2048, 4, 16, 64
GPT = Model(
    name="gpt", num_layers=2, hidden_size=HEADS * D, num_heads=HEADS, num_kv_heads=HEADS, head_dim=D,
    ffn_size=4096, vocab_size=51200,
)  # fmt: skip
LONG = Model(
    name="long", num_layers=2, hidden_size=4096, num_heads=32, num_kv_heads=32, head_dim=128,
    ffn_size=4096, vocab_size=1024,
)  # fmt: skip
WAYS = ("all_gather", "ring", "ulysses", "ulysses+ring")


def plan(**fields) -> Plan:
    inner = 2 if fields.get("context") == "ulysses+ring" else 0
    return Plan(**{"cp": CP, "global_batch": 1, "seq_len": S, "context_inner": inner, **fields})


def core(made: Plan, model: Model = GPT, **fields) -> Part:
    parts = layer_parts(Sizes(model, made, **fields), model.layer_kinds[0])
    return next(part for part in parts if part.name == "attention")


def moved(part: Part, direction: str) -> Counter[tuple[str, str]]:
    """Bytes by kind and axis, as the ops state them."""
    found: Counter[tuple[str, str]] = Counter()
    for ops in getattr(part, direction).values():
        for op in ops:
            if isinstance(op, Collective):
                found[op.kind, op.axis] += op.nbytes
    return found


def attention_flops(program: Program, phase: str = "F") -> float:
    """FLOPs of the cores of all ranks."""
    per_script = [
        sum(
            op.kernel.flops
            for segments in script.streams.values()
            for segment in segments
            for op in segment.ops
            if isinstance(op, Compute) and isinstance(op.kernel, Attention) and op.phase == phase
        )
        for script in program.scripts
    ]
    return sum(per_script[script] for script in program.script_of_rank)


def replayed(made: Plan, model: Model = LONG, **machine) -> Timeline:
    return simulate(lower(model, made), cluster("h100-fat-tree", made.num_devices, **machine))


def test_bytes_of_each_way_by_hand() -> None:
    """512 tokens a rank of 1024 queries, keys, values in bf16: keys and values 2 MiB, with queries 3, outputs 1."""
    kv, qkv, out = 2 * MiB, 3 * MiB, 1 * MiB
    gather, ring, swap, mixed = (core(plan(context=way)) for way in WAYS)
    assert moved(gather, "forward") == {("all_gather", "cp"): CP * kv}
    assert moved(gather, "backward") == {
        ("all_gather", "cp"): CP * kv,
        ("reduce_scatter", "cp"): CP * kv,
    }
    assert moved(ring, "forward") == {("send_recv", "cp"): 3 * kv}
    assert moved(ring, "backward") == {("send_recv", "cp"): 3 * 2 * kv}
    assert moved(swap, "forward") == moved(swap, "backward") == {("all_to_all", "cp"): qkv + out}
    assert moved(mixed, "forward") == {
        ("all_to_all", "cp.inner"): qkv + out,
        ("send_recv", "cp.outer"): kv,
    }
    assert moved(mixed, "backward")["send_recv", "cp.outer"] == 2 * kv


def test_key_heads_fewer_than_ranks_are_repeated_before_they_travel() -> None:
    """2 key heads over 4 ranks: each twice; 512 tokens of 16 + 2 x 4 heads of 64 in bf16."""
    few = replace(GPT, num_kv_heads=2)
    part = core(plan(context="ulysses"), few)
    sent, back = (op for op in part.forward["compute"] if isinstance(op, Collective))
    assert (sent.nbytes, back.nbytes) == (512 * (16 + 2 * 4) * 64 * 2, 512 * 16 * 64 * 2)
    (kernel,) = [op.kernel for op in part.forward["compute"] if isinstance(op, Compute)]
    assert (kernel.heads, kernel.kv_heads, kernel.seq_q) == (4, 1, S)


def test_key_heads_that_can_neither_be_cut_nor_repeated_are_refused() -> None:
    odd = replace(GPT, num_heads=24, head_dim=64, hidden_size=1536, num_kv_heads=6)
    with pytest.raises(
        PlanError, match=r"cp must divide, or be divided by, the key heads .* = 6; change cp"
    ):
        lower(odd, plan(context="ulysses"))


@pytest.mark.parametrize("way", WAYS)
def test_all_ranks_do_the_causal_half_once(way) -> None:
    """2 heads (d + d) scores forward, 2.5 times that backward, 2 layers."""
    program = lower(GPT, plan(context=way))
    whole = 2 * 2.0 * HEADS * (S * S / 2) * 2 * D
    assert attention_flops(program) == pytest.approx(whole)
    assert attention_flops(program, "B") == pytest.approx(2.5 * whole)


@pytest.mark.parametrize("way", ["all_gather", "ring", "ulysses+ring"])
@pytest.mark.parametrize("balance", ["zigzag", "contiguous"])
@pytest.mark.parametrize("documents", ["", "256", "128:0.9,2048:0.1"])
def test_balance_and_documents_conserve_flops(way, balance, documents) -> None:
    """Whatever the order of pieces, the ranks together do what one rank would."""
    shared = lower(GPT, plan(context=way, context_balance=balance, documents=documents))
    alone = lower(GPT, plan(cp=1, documents=documents, context_inner=0))
    assert attention_flops(shared) == pytest.approx(attention_flops(alone))


def test_groups_of_a_mixed_span() -> None:
    """Heads are swapped among neighbours, keys go round over every second rank."""
    groups = lower(GPT, plan(context="ulysses+ring", dp=2, global_batch=2)).groups
    assert groups["cp.inner"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups["cp.outer"].tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]


def test_zigzag_is_even_within_a_percent() -> None:
    """Keys of each query counted as integers (itself included), 8 ranks, 4096 tokens."""
    queries = np.arange(4096).reshape(16, -1)
    counted = [sum((queries[piece] + 1).sum() for piece in own) for own in pieces("zigzag", 8)]
    assert max(counted) / min(counted) < 1.01
    assert step_scores(Spread(4096, 8, "zigzag"), 0).sum(axis=1) == pytest.approx(counted, rel=0.01)


def test_contiguous_pieces_are_as_uneven_as_the_mask() -> None:
    """Rank r has r whole blocks and half of one: 1, 3, 5, 7 halves."""
    counted = step_scores(Spread(S, CP, "contiguous"), 0).sum(axis=1)
    assert (counted / counted[0]).tolist() == [1.0, 3.0, 5.0, 7.0]
    zigzag = step_scores(Spread(S, CP, "zigzag"), 0).sum(axis=1)
    assert counted[-1] / zigzag[0] == (2 * CP - 1) / CP


def test_ranks_unfold_only_where_their_work_differs() -> None:
    def kinds(**fields) -> list[int]:
        made = plan(cp=8, **fields)
        return context_kinds(GPT, made).tolist()

    assert kinds(context="ring") == kinds(context="ulysses", documents="512") == [0] * 8
    assert kinds(context="ring", context_balance="contiguous") == list(range(8))
    assert kinds(context="ring", documents="128") == [0] * 8
    assert kinds(context="ulysses+ring", context_balance="contiguous") == [0, 0, 1, 1, 2, 2, 3, 3]
    # documents of half a sequence: the middle pieces meet in the last rank only
    assert (
        len(set(kinds(context="all_gather", documents="1024", context_balance="contiguous"))) == 4
    )


def test_the_last_rank_of_contiguous_pieces_makes_the_ring_wait() -> None:
    """Two ranks: half a block, then the last computes a whole one while the first waits for it.

    In zigzag order each does two halves; so each layer takes a kernel of half a block longer, forward and backward.
    """
    length = 131072
    zigzag, apart = (
        replayed(
            Plan(cp=2, global_batch=1, seq_len=length, context="ring", context_balance=balance)
        )
        for balance in ("zigzag", "contiguous")
    )
    block = (length / 2) ** 2

    def seconds(scores: float, direction: str) -> float:
        kernel = Attention(
            1, 32, 32, length // 2, length // 2, 128, 128, False, direction, implementation="te", scores=scores
        )  # fmt: skip
        return kernel_time(kernel, zigzag.cluster.device_kinds[0])

    longer = sum(seconds(block, d) - seconds(block / 2, d) for d in ("fwd", "bwd"))
    whole = sum(seconds(block, d) for d in ("fwd", "bwd"))
    assert apart.step_time - zigzag.step_time == pytest.approx(2 * longer, rel=0.05)
    first, last = ledgers(apart)
    assert first["compute"] + 2 * whole == pytest.approx(last["compute"], rel=0.01)
    assert first["wait.cp"] + first["wait.dp"] == pytest.approx(2 * whole, rel=0.03)
    assert not [cause for cause in last if cause.startswith("wait")]


@pytest.mark.parametrize("way", ["all_gather", "ring"])
def test_contiguous_order_costs_time_and_no_flops(way) -> None:
    fields = {"cp": 4, "global_batch": 1, "seq_len": 65536, "context": way}
    even = replayed(Plan(**fields))
    uneven = replayed(Plan(**fields, context_balance="contiguous"))
    assert uneven.step_time > 1.2 * even.step_time
    assert (even.num_classes, uneven.num_classes) == (1, 4)
    assert attention_flops(even.program) == pytest.approx(attention_flops(uneven.program))


def test_folded_and_unfolded_agree_where_ranks_differ() -> None:
    made = Plan(
        cp=4, dp=2, pp=2, global_batch=4, seq_len=8192, context="ring", documents="500:0.9,8192:0.1"
    )
    program, machine = lower(LONG, made), cluster("h100-fat-tree", 16)
    folded, whole = simulate(program, machine), simulate(program, machine, unfolded=True)
    assert folded.num_classes < whole.num_classes == 16
    assert folded.step_time == pytest.approx(whole.step_time, rel=1e-9)


@pytest.mark.parametrize(
    "fields",
    [
        {"documents": "512:0.9,4096:0.1"},
        {"context": "ring", "context_balance": "contiguous"},
        {"documents": "512:0.9,4096:0.1", "routing": "draw:1"},
    ],
)
def test_uneven_ranks_pair_forward_and_backward_in_the_same_order(fields) -> None:
    """Blocks of a pair are cut by the work of an even rank: else groups would meet out of order."""
    experts = replace(
        LONG,
        num_layers=6,
        num_experts=8,
        experts_per_token=2,
        expert_ffn_size=1024,
        num_dense_layers=1,
    )
    made = Plan(
        cp=4,
        pp=2,
        ep=4,
        schedule="dualpipe",
        chunks=2,
        global_batch=8,
        seq_len=4096,
        overlap_ep="on",
        **fields,
    )
    timeline = replayed(made, experts)
    assert timeline.num_classes > 2
    assert all(
        sum(part.values()) == pytest.approx(timeline.step_time, rel=1e-9)
        for part in ledgers(timeline)
    )


@pytest.mark.parametrize(("times", "low", "high"), [(8.0, 0.0, 0.03), (0.125, 0.4, 1.0)])
def test_a_ring_hides_what_it_sends_from_flops_over_bandwidth_on(times, low, high) -> None:
    """Liu et al. 2023, section 3: a device computes 4 d c^2 while it sends 4 d c bytes, so c >= FLOP/s over bytes/s.

    Half of that work in causal order. One device a host, 50 GB/s each way, some 600 TFLOP/s: c = 24K tokens.
    """
    balance = 2 * 600e12 / (50 * GB)
    local = int(balance * times) // 2048 * 2048
    made = Plan(cp=4, global_batch=1, seq_len=4 * local, context="ring")
    timeline = replayed(made, used_per_domain=1)
    mean = mean_ledger(timeline, ledgers(timeline))
    sent = sum(
        span.end - span.start
        for span in timeline.spans(0)
        if isinstance(span.op, Collective) and span.op.kind == "send_recv"
    )
    assert low <= mean.get("exposed.cp", 0.0) / sent <= high


def test_documents_shorten_attention_and_nothing_else() -> None:
    """256-token documents in 2048: an eighth of the scores; products, bytes and memory stay."""
    whole, packed = core(plan(cp=1)), core(plan(cp=1, documents="256"))
    (one,), (other,) = whole.forward["compute"], packed.forward["compute"]
    assert one.kernel.flops == 8 * other.kernel.flops
    assert (one.kernel.nbytes, whole.saved) == (other.kernel.nbytes, packed.saved)


def test_model_flops_follow_the_document_mask_in_the_causal_convention() -> None:
    """Scores are 2 heads (d + d) a token and pair, three passes, two layers."""
    whole, packed = (
        lower(GPT, plan(cp=1, documents=documents)).flops for documents in ("", "256:3,1024:1")
    )
    assert packed["full"] == whole["full"]
    met = (3 * 256**2 + 1024**2) / (3 * 256 + 1024)
    fewer = 3 * 2 * 2.0 * HEADS * 2 * D * (S - met) / 2
    assert whole["causal"] - packed["causal"] == pytest.approx(S * fewer)
    assert "packed whole" in lower(GPT, plan(cp=1, documents="256")).assumptions[-1]


def test_short_documents_leave_rounds_of_a_ring_without_work() -> None:
    """Contiguous pieces of 512 tokens hold whole documents of 256: only the first round computes."""
    part = core(
        plan(context="ring", context_balance="contiguous", documents="256"), context_place=2
    )
    rounds = [op for op in part.forward["compute"] if isinstance(op, Compute)]
    assert [op.name for op in rounds] == ["attention.0"]
    assert len(part.forward["cp"]) == 3


def test_drawn_documents_make_ranks_wait_and_a_seed_draws_others() -> None:
    def step(seed: int) -> Timeline:
        return replayed(
            Plan(
                cp=4,
                global_batch=4,
                seq_len=16384,
                documents="256:0.95,16384:0.05",
                document_seed=seed,
            )
        )

    first, again, other = step(1), step(1), step(2)
    assert first.step_time == again.step_time != other.step_time
    assert mean_ledger(first, ledgers(first))["wait.cp"] > 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cp": 3}, r"cp=3 does not divide seq_len=2048 in two pieces a rank .*; choose seq_len 2046 or 2052"),
        ({"seq_len": 2052}, r"cp=4 does not divide seq_len=2052 in two pieces .*; choose seq_len 2048 or 2056"),
        ({"cp": 1, "context_balance": "contiguous"}, r"context_balance='contiguous' with cp=1, .* has no effect"),
        ({"context": "ulysses", "context_balance": "contiguous"}, r"context='ulysses' has no effect"),
        ({"document_seed": 1}, r"document_seed=1 has no effect: it draws where documents stand"),
        ({"cp": 1, "document_seed": 1, "documents": "512"}, r"document_seed=1 has no effect"),
        ({"context_inner": 2}, r"context_inner=2 with context='all_gather' on cp=4 has no effect"),
        ({"context": "ulysses+ring", "context_inner": 3}, r"must be a divisor of cp=4 between 1 and cp; choose from 2"),
        ({"context": "ulysses+ring", "context_inner": 0, "cp": 2}, r"context_inner=0 .* cp=2 .*; raise cp, or use"),
        ({"documents": "4096"}, r"a document of 4096 tokens is longer than seq_len=2048"),
        ({"context_balance": "striped"}, r"unknown context_balance 'striped'"),
    ],
)  # fmt: skip
def test_refusals(fields, message) -> None:
    with pytest.raises(PlanError, match=message):
        check(plan(**fields), GPT)


def test_contiguous_pieces_need_no_halves() -> None:
    check(plan(seq_len=2052, context_balance="contiguous"), GPT)


def test_documents_need_scores_that_a_kernel_can_skip() -> None:
    with pytest.raises(
        PlanError, match=r"documents=512 needs a flash attention kernel; .* use documents=''"
    ):
        lower(GPT, plan(cp=1, documents="512", attention="unfused"))
