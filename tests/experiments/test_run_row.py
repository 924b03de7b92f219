"""Rows of measured runs: what is read, what is assumed, what is refused."""

import pytest

from experiments.row_cluster import network_of
from experiments.row_text import UnsupportedError
from experiments.run_row import run_of_row
from sim.errors import InputError, PlanError
from sim.units import Gbit

ROW = {
    "id": "row-001", "source": "a paper", "year": "2025", "hardware": "H100-80GB", "gpus": "64.0",
    "gpus_per_node": "8.0", "interconnect": "NVLink4; 8x NDR400 IB", "model": "llama3-70b",
    "seq_len": "8192.0", "global_batch_sequences": "128.0", "micro_batch": "1.0", "dtype": "bf16", "tp": "4.0",
    "sp": "1.0", "pp": "4.0", "vpp": "5.0", "schedule": "1f1b-interleaved", "cp": "2.0", "dp": "2.0",
    "zero_stage_or_fsdp": "zero1 (distributed optimizer)", "recompute": "selective", "framework": "NeMo 2.0",
}  # fmt: skip
MOE = ROW | {
    "model": "qwen3-235b-a22b", "gpus": "256", "tp": "2", "pp": "8", "vpp": "4", "cp": "1", "dp": "16", "ep": "32",
    "etp": "1", "n_experts": "128", "seq_len": "4096", "global_batch_sequences": "1024",
    "framework": "Megatron-Bridge/Megatron-Core + TE",
}  # fmt: skip
GPT = ROW | {
    "model": "gpt3-175b",
    "gpus": "32",
    "tp": "1",
    "pp": "8",
    "vpp": "",
    "cp": "1",
    "dp": "4",
    "sp": "0",
}


def test_a_row_becomes_its_run() -> None:
    run = run_of_row(ROW)
    plan = run.plan
    assert (plan.tp, plan.cp, plan.pp, plan.dp, plan.chunks) == (4, 2, 4, 2, 5)
    assert (plan.schedule, plan.zero, plan.recompute, plan.num_microbatches) == (
        "interleaved",
        1,
        "selective",
        64,
    )
    assert plan.sequence_parallel
    assert (plan.software, plan.overlap_tp) == ("megatron-core", "on")
    assert (run.cluster.preset, run.cluster.num_devices) == ("h100-fat-tree", 64)
    assert run.model.num_layers == 80


@pytest.mark.parametrize(
    ("words", "per_device"),
    [
        ("NVLink4; 8x NDR400 IB", 400 * Gbit),
        ("NVLink3; 800 Gb/s per node (4x HDR200)", 100 * Gbit),
        ("Eos: NVLink4 450GB/s; 400Gb/s NDR IB per GPU", 400 * Gbit),
        ("NVLink; RoCE 1600 Gb/s per node", 200 * Gbit),
    ],
)
def test_adapters_are_read_from_their_parts(words: str, per_device: float) -> None:
    network = network_of(words)
    assert (network.per_host or network.nic_bandwidth * 8) / 8 == pytest.approx(per_device)


def test_what_is_not_stated_is_assumed_and_listed() -> None:
    run = run_of_row(ROW | {"recompute": "", "sp": "", "schedule": "", "dp": ""})
    said = " | ".join(run.assumptions)
    for words in ("recompute not stated: none", "sequence_parallel not stated: on", "schedule not stated: interleaved",
                  "dp not stated: 2"):  # fmt: skip
        assert words in said


def test_torchtitan_cuts_a_batch_into_a_microbatch_a_rank_and_two_stages_a_rank() -> None:
    """Its defaults: pipeline_parallel_microbatches as many as ranks; two stages a rank of an interleaved schedule."""
    row = ROW | {
        "framework": "torchtitan",
        "zero_stage_or_fsdp": "fsdp2 over 2",
        "global_batch_sequences": "64",
    }
    row |= {"micro_batch": "", "vpp": "", "cp": "1", "gpus": "32", "grad_accum": "1"}
    plan = run_of_row(row).plan
    assert (plan.microbatch, plan.num_microbatches, plan.chunks) == (8, 4, 2)
    assert plan.loss == "dropped"


def test_accumulation_gives_the_microbatch_of_runs_without_a_pipeline() -> None:
    flat = ROW | {
        "pp": "1",
        "vpp": "",
        "schedule": "",
        "dp": "8",
        "micro_batch": "",
        "grad_accum": "4",
    }
    assert run_of_row(flat).plan.microbatch == 4
    assert run_of_row(ROW | {"micro_batch": "", "grad_accum": "1"}).plan.microbatch == 1


def test_interleaved_without_chunks_takes_a_layer_a_chunk() -> None:
    run = run_of_row(
        ROW
        | {"model": "llama3-405b", "vpp": "", "cp": "1", "dp": "4", "framework": "Meta internal"}
    )
    assert (run.plan.chunks, run.plan.schedule, run.plan.software) == (
        32,
        "interleaved",
        "torch-fsdp",
    )


@pytest.mark.parametrize(
    ("framework", "year", "profile"),
    [
        ("Megatron-LM", "2021", "megatron-2021"),
        ("Megatron-LM", "2022", "megatron-2022"),
        ("Megatron-LM 0.14 + TE 2.11", "2026", "megatron-core"),
        ("Megatron-LM fork (sail-sg)", "2023", "megatron-2022"),
        ("Megatron-DeepSpeed (BigScience)", "2022", "megatron-deepspeed"),
        ("Composer + PyTorch FSDP, flash attention (Triton)", "2023", "torch-fsdp"),
        ("Meta internal", "2024", "torch-fsdp"),
        ("MaxText (JAX/XLA)", "2025", "xla"),
        ("Paxml/XLA + Transformer Engine", "2023", "xla"),
        ("MindSpeed-LLM 1.0.RC3 (Mcore)", "2024", "megatron-core"),
    ],
)
def test_frameworks_have_their_profile(framework: str, year: str, profile: str) -> None:
    assert run_of_row(GPT | {"framework": framework, "year": year}).plan.software == profile


def test_torchtitan_is_compiled_where_its_notes_say_so() -> None:
    row = GPT | {"framework": "torchtitan"}
    assert run_of_row(row | {"notes": "FSDP"}).plan.software == "torch-fsdp"
    assert run_of_row(row | {"notes": "FSDP+compile"}).plan.software == "torch-compiled"
    assert run_of_row(row | {"dtype": "fp8"}).plan.software == "torch-compiled"


@pytest.mark.parametrize(
    ("words", "context"),
    [("", "ring"), ("CP algo ulysses_cp_algo", "ulysses"), ("CP algo megatron_cp_algo", "ring")],
)
def test_context_is_spanned_as_the_notes_say(words: str, context: str) -> None:
    run = run_of_row(ROW | {"notes": words})
    assert run.plan.context == context
    assert bool(words) == any(context in note for note in run.assumptions)


def test_experts_travel_as_the_notes_say() -> None:
    plain = run_of_row(MOE).plan
    assert (plain.ep, plain.etp, plain.dispatcher, plain.dropless) == (32, 1, "deepep", True)
    row = MOE | {
        "notes": "token-drop, capacity factor 1.25, alltoall dispatcher",
        "recompute": "none",
    }
    dropped = run_of_row(row).plan
    assert (dropped.dispatcher, dropped.dropless, dropped.capacity) == ("alltoall", False, 1.25)
    assert dropped.padded
    alone = run_of_row(row | {"ep": "1"})
    assert alone.plan.dispatcher == "auto"
    assert any("tokens do not travel with ep=1" in note for note in alone.assumptions)


@pytest.mark.parametrize(
    ("recompute", "notes", "expected"),
    [
        ("selective (norm, act)", "", ("norm", "moe_act")),
        ("selective (rmsnorm, mla up-proj)", "", ("norm",)),
        (
            "selective",
            "recompute modules (release-branch recipe): layernorm,moe_act",
            ("norm", "moe_act"),
        ),
        ("selective", "", ("core_attn",)),
    ],
)
def test_modules_of_selective_recompute(
    recompute: str, notes: str, expected: tuple[str, ...]
) -> None:
    plan = run_of_row(MOE | {"recompute": recompute, "notes": notes}).plan
    assert (plan.recompute, plan.recompute_modules) == ("selective", expected)


def test_tpu_rows_without_degrees_shard_over_all_chips() -> None:
    row = {"id": "t", "hardware": "TPU v5p", "gpus": "512", "interconnect": "ICI torus", "model": "gpt3-175b",
           "seq_len": "2048", "global_batch_sequences": "2048", "tp": "", "pp": "", "dp": "", "dtype": "int8",
           "framework": "MaxText"}  # fmt: skip
    run = run_of_row(row)
    assert (run.plan.dp, run.plan.tp, run.plan.microbatch, run.plan.zero) == (512, 1, 4, 3)
    assert "degrees not stated: parameters sharded over 512 devices, tp 1" in run.assumptions


def test_tensor_parallel_groups_of_a_torus_are_lines() -> None:
    """3,072 TPU v4 a pod: compact 12 x 16 x 16, turned so that 12-way model parallelism is the last axis (PaLM)."""
    row = ROW | {"hardware": "TPU v4", "gpus": "6144", "interconnect": "2 pods x 3072 chips, ICI 3D torus + DCN",
                 "tp": "12", "pp": "1", "vpp": "", "cp": "1", "dp": "512", "schedule": "", "framework": "T5X/JAX",
                 "global_batch_sequences": "2048", "zero_stage_or_fsdp": "fsdp 256-way per pod", "sp": "0"}  # fmt: skip
    run = run_of_row(row | {"model": "palm-540b"})
    assert run.cluster.parameters == {"slices": 2, "shape": "16x16x12"}
    assert "shape not stated: 16x16x12, tp along its last axis" in run.assumptions
    as_it_is = {"model": "palm-540b", "tp": "16", "dp": "384", "global_batch_sequences": "1920"}
    spec = run_of_row(row | as_it_is | {"zero_stage_or_fsdp": "fsdp"}).cluster
    assert spec.parameters == {"slices": 2}


@pytest.mark.parametrize(
    ("hardware", "beside"),
    [("TPU v4", False), ("TPU v5e", False), ("TPU v6e", False), ("TPU7x (Ironwood)", True), ("H100-80GB", True)],
)  # fmt: skip
def test_xla_reduces_on_the_tensor_core_up_to_v6e(hardware: str, beside: bool) -> None:
    row = ROW | {"hardware": hardware, "framework": "MaxText", "interconnect": "", "zero_stage_or_fsdp": "fsdp(zero3)",
                 "tp": "1", "pp": "1", "vpp": "", "cp": "1", "dp": "64", "schedule": ""}  # fmt: skip
    plan = run_of_row(row).plan
    assert plan.software == "xla"
    assert plan.switch("overlap_grad_reduce") is beside
    assert plan.switch("overlap_param_gather")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"tp": "3"}, PlanError, "tp 3 x cp 2 x pp 4 x dp 2 = 48, but gpus=64"),
        ({"dtype": "fp8/nvfp4"}, UnsupportedError, "which of the two ran"),
        ({"dtype": ""}, UnsupportedError, "dtype is not stated"),
        ({"hardware": "TPU v99"}, UnsupportedError, "no device of that name"),
        ({"hardware": "B200 (power limited)"}, UnsupportedError, "as sold"),
        ({"gpus": "many"}, InputError, "gpus='many' is not a number"),
        ({"seq_len": ""}, UnsupportedError, "seq_len is not stated"),
        ({"model": "nobody-7b"}, UnsupportedError, "no shape"),
        ({"recompute": "perhaps"}, InputError, "recompute='perhaps' is not understood"),
        ({"gated_mlp": "perhaps"}, InputError, "gated_mlp='perhaps' is not a flag"),
        ({"heads": "0"}, InputError, "heads=0 must be positive"),
        ({"kv_heads": "few"}, InputError, "kv_heads='few' is not a number"),
        ({"vocab": "nan"}, InputError, "vocab=nan must be positive and finite"),
        ({"gpus_per_node": "8.5"}, InputError, "gpus_per_node=8.5 must be a whole number"),
        ({"grad_accum": "twice"}, InputError, "grad_accum='twice' is not a number"),
        ({"ep": "-1"}, InputError, "ep=-1 must be positive"),
        ({"year": "last"}, InputError, "year='last' is not a number"),
    ],
)
def test_what_cannot_run_says_why(
    change: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run_of_row(ROW | change)


def test_a_table_without_a_column_is_refused() -> None:
    with pytest.raises(InputError, match="column seq_len is missing"):
        run_of_row({key: field for key, field in ROW.items() if key != "seq_len"})


def test_accumulation_that_contradicts_is_listed() -> None:
    row = GPT | {"pp": "1", "dp": "32", "micro_batch": "2", "grad_accum": "8"}
    (note,) = [a for a in run_of_row(row).assumptions if "grad_accum" in a]
    assert note == (
        "grad_accum=8 contradicts: 32 ranks x 2 x 8 = 512 sequences, global_batch_sequences=128 is taken"
    )
    assert not any("grad_accum" in a for a in run_of_row(row | {"grad_accum": "2"}).assumptions)
    piped = row | {"pp": "8", "dp": "4", "micro_batch": "1"}
    for steps, noted in (("1", False), ("32", False), ("3", True)):
        notes = run_of_row(piped | {"grad_accum": steps}).assumptions
        assert any(f"grad_accum={steps} contradicts" in a for a in notes) is noted


def test_a_shape_that_departs_from_its_preset_is_listed() -> None:
    row = GPT | {
        "n_layers": "48",
        "vocab": "51200",
        "hidden": "12288",
        "n_experts": "",
        "gated_mlp": "0",
    }
    run = run_of_row(row)
    assert (run.model.num_layers, run.model.vocab_size) == (48, 51200)
    assert [a for a in run.assumptions if "is not gpt3-175b's" in a] == [
        "n_layers=48 is not gpt3-175b's 96: the row's is taken",
        "vocab=51200 is not gpt3-175b's 50257: the row's is taken",
    ]
