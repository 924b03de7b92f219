"""Plans that cannot be say which numbers clash and what would do."""

import pytest

from sim.errors import InputError, PlanError
from workloads.lower import lower
from workloads.model import Model
from workloads.plan import Plan
from workloads.plan_check import check, divisors

MODEL = Model(
    name="small", num_layers=8, hidden_size=768, num_heads=12, num_kv_heads=12, head_dim=64,
    ffn_size=3072, vocab_size=1000,
)  # fmt: skip
EXPERTS = Model(
    name="experts", num_layers=8, hidden_size=768, num_heads=12, num_kv_heads=12, head_dim=64,
    ffn_size=3072, vocab_size=1000, num_experts=6, experts_per_token=2, expert_ffn_size=768,
)  # fmt: skip


def plan(**fields) -> Plan:
    return Plan(**{"global_batch": 16, "seq_len": 512, **fields})


@pytest.mark.parametrize(
    "name",
    [
        "tp",
        "cp",
        "ep",
        "etp",
        "pp",
        "dp",
        "chunks",
        "microbatch",
        "global_batch",
        "seq_len",
        "prefetch",
    ],
)
@pytest.mark.parametrize("value", [0, -2])
def test_sizes_are_positive(name, value) -> None:
    with pytest.raises(PlanError, match=rf"{name}={value} must be at least 1"):
        plan(**{name: value})


@pytest.mark.parametrize("name", ["group_size", "shard", "bucket_bytes", "recompute_layers"])
def test_options_are_not_negative(name) -> None:
    with pytest.raises(PlanError, match=rf"{name}=-1 must be 0 \(automatic\) or more"):
        plan(**{name: -1})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"schedule": "1f1"}, r"unknown schedule '1f1'; did you mean '1f1b'"),
        ({"recompute": "half"}, r"unknown recompute 'half'.*Known: full, none, selective"),
        ({"context": "rings"}, r"unknown context 'rings'; did you mean 'ring'"),
        ({"dtype": "bf8"}, r"unknown dtype 'bf8'"),
        ({"software": "megatron"}, r"unknown software 'megatron'; did you mean"),
        ({"overlap_p2p": "yes"}, r"unknown overlap_p2p 'yes'.*Known: auto, off, on"),
        ({"zero": 4}, r"zero=4 must be 0, 1, 2 or 3"),
        ({"order": ("tp", "dp", "pp")}, r"order=.* must name tp, cp, dp and pp once each"),
        ({"dp": 4, "tp": 2, "ep": 3}, r"ep=3 x etp=1 does not divide tp x cp x dp = 8; .*divisors of 8"),
        ({"dp": 4, "ep": 4, "etp": 2}, r"ep=4 x etp=2 does not divide tp x cp x dp = 4"),
        ({"dp": 3}, r"global_batch=16 is not a multiple of dp=3 x microbatch=1 = 3; choose 15 or 18"),
        ({"dp": 32}, r"global_batch=16 is not a multiple of dp=32 .*; choose 32"),
        ({"microbatch": 5}, r"dp=1 x microbatch=5 = 5; choose 15 or 20"),
        ({"dp": 8, "shard": 3}, r"shard=3 does not divide dp x cp = 8"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be(fields, message) -> None:
    with pytest.raises(PlanError, match=message):
        plan(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tp": 5}, r"tp=5 does not divide num_heads=12; choose tp from 1, 2, 3, 4, 6, 12"),
        ({"cp": 3}, r"cp=3 does not divide seq_len=512"),
        ({"cp": 2, "tp": 3, "sequence_parallel": True}, r"cp=2 x tp=3 \(sequence_parallel\) does not divide seq_len"),
        ({"pp": 4, "chunks": 4, "schedule": "interleaved"},
         r"pp=4 x chunks=4 = 16 stages, more than the 8 layers of small .*; choose pp x chunks up to 10"),
        ({"pp": 2, "layout": (4, 5)}, r"layout has 2 stages and 9 layers; the plan has 2 stages and the model 8"),
        ({"pp": 2, "layout": (4, 2, 2)}, r"layout has 3 stages and 8 layers"),
        ({"dp": 4, "ep": 2}, r"ep=2 but small has no experts; use ep=1"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_run_this_model(fields, message) -> None:
    with pytest.raises(PlanError, match=message):
        check(plan(**fields), MODEL)


def test_experts_divide_over_ep() -> None:
    with pytest.raises(
        PlanError, match=r"ep=4 does not divide num_experts=6; choose ep from 1, 2, 3, 6"
    ):
        check(plan(dp=4, ep=4), EXPERTS)


def test_a_width_that_does_not_divide() -> None:
    odd = Model(
        name="odd", num_layers=2, hidden_size=768, num_heads=12, num_kv_heads=12, head_dim=64,
        ffn_size=1001, vocab_size=1000,
    )  # fmt: skip
    with pytest.raises(
        PlanError, match=r"tp=2 does not divide ffn_size=1001; choose tp from 1, 7, 11, 13"
    ):
        check(plan(tp=2), odd)


def test_lowering_checks_first() -> None:
    with pytest.raises(PlanError, match="tp=5 does not divide num_heads=12"):
        lower(MODEL, plan(tp=5))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"pp": 4, "chunks": 2, "schedule": "interleaved", "global_batch": 9},
            r"microbatches=9 on stages=4",
        ),
        ({"pp": 2, "chunks": 2, "schedule": "1f1b"}, r"schedule 1f1b cannot have chunks=2"),
        ({"pp": 2, "chunks": 3, "schedule": "zb-v"}, r"schedule zb-v cannot have chunks=3"),
        (
            {"pp": 3, "schedule": "dualpipe"},
            r"dualpipe needs an even number of stages, not 3; choose 2 or 4",
        ),
        ({"pp": 2, "group_size": 3}, r"schedule 1f1b has no option group_size"),
        ({"cp": 2, "software": "megatron-2022"}, r"cp=2 needs a flash attention kernel.*use cp=1"),
        (
            {"cp": 8, "context": "ulysses"},
            r"cp must divide the heads of a rank, num_heads / tp = 12",
        ),
    ],
)
def test_rules_of_schedules_and_attention_are_told_when_lowered(fields, message) -> None:
    with pytest.raises(InputError, match=message):
        lower(MODEL, plan(**fields))


def test_neutral_values_are_accepted() -> None:
    lower(MODEL, plan(chunks=1, shard=0, group_size=0, recompute_layers=0, layout=(), ep=1, etp=1))


def test_derived_numbers() -> None:
    made = plan(tp=2, cp=2, pp=3, dp=4, microbatch=2, global_batch=32)
    assert made.num_devices == 48
    assert made.num_microbatches == 4
    assert made.num_stages == 3
    assert plan(dtype="fp8").dtype_bytes == 2.0
    assert plan(dtype="fp32").dtype_bytes == 4.0


def test_switches_follow_the_software_unless_set() -> None:
    assert plan(software="megatron-core").switch("overlap_grad_reduce")
    assert not plan(software="megatron-2021").switch("overlap_grad_reduce")
    assert plan(software="megatron-2021", overlap_grad_reduce="on").switch("overlap_grad_reduce")
    assert not plan(software="megatron-core", overlap_grad_reduce="off").switch(
        "overlap_grad_reduce"
    )


def test_divisors_of_a_message() -> None:
    assert divisors(12) == "1, 2, 3, 4, 6, 12"
    assert divisors(5040).endswith("...")


def test_what_a_full_recompute_keeps_is_checked() -> None:
    with pytest.raises(PlanError, match=r"recompute_keeps.*qkvv.*qkv"):
        Plan(global_batch=1, seq_len=8, recompute="full", recompute_keeps=("qkvv",))
    with pytest.raises(PlanError, match=r"recompute_keeps.*no effect"):
        check(Plan(global_batch=1, seq_len=8, recompute_keeps=("qkv",)), MODEL)
