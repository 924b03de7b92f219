"""Which stage holds which layers."""

import pytest

from workloads.layout import stage_contents
from workloads.model import Model
from workloads.models import model as preset
from workloads.plan import Plan


def model(layers: int) -> Model:
    return Model(
        name="m", num_layers=layers, hidden_size=64, num_heads=4, num_kv_heads=4, head_dim=16,
        ffn_size=128, vocab_size=100,
    )  # fmt: skip


def counts(layers: int, stages: int, layout: tuple[int, ...] = ()) -> list[int]:
    plan = Plan(pp=stages, global_batch=stages, seq_len=64, layout=layout)
    contents, _ = stage_contents(model(layers), plan, stages)
    assert [c.embedding for c in contents] == [True] + [False] * (stages - 1)
    assert [c.head for c in contents] == [False] * (stages - 1) + [True]
    assert sum(len(c.layers) for c in contents) == layers
    return [len(c.layers) for c in contents]


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [
        (8, 1, [8]),
        (8, 4, [2, 2, 2, 2]),
        (6, 4, [1, 2, 2, 1]),
        (10, 4, [2, 3, 3, 2]),
        (7, 3, [2, 3, 2]),
        (9, 4, [2, 3, 2, 2]),
        (11, 4, [3, 3, 3, 2]),
        (2, 4, [0, 1, 1, 0]),
    ],
)
def test_layers_are_spread(layers, stages, expected) -> None:
    assert counts(layers, stages) == expected


def test_a_layout_is_taken_as_it_is() -> None:
    assert counts(8, 3, (1, 5, 2)) == [1, 5, 2]


def test_llama_405b_counts_embedding_and_head_as_layers() -> None:
    """126 + 2 = 128 = 16 x 8: the first chunk holds the embedding alone, the last the head alone."""
    plan = Plan(pp=16, chunks=8, global_batch=16, seq_len=8192, schedule="interleaved")
    contents, assumed = stage_contents(preset("llama3-405b"), plan, 128)
    assert [len(c.layers) for c in contents] == [0] + [1] * 126 + [0]
    assert assumed == ("layout: embedding and head count as layers, 1 a stage",)


def test_an_uneven_layout_is_listed() -> None:
    plan = Plan(pp=3, global_batch=3, seq_len=64)
    _, assumed = stage_contents(model(8), plan, 3)
    assert assumed == ("layout: 8 layers on 3 stages: balanced by FLOPs: 3 (x2), 2",)


def test_kinds_of_layers_keep_their_order() -> None:
    mixed = Model(
        name="mixed", num_layers=4, hidden_size=64, num_heads=4, num_kv_heads=4, head_dim=16,
        ffn_size=128, vocab_size=100, num_experts=4, experts_per_token=1, expert_ffn_size=64, num_dense_layers=1,
    )  # fmt: skip
    contents, _ = stage_contents(mixed, Plan(pp=2, global_batch=2, seq_len=64), 2)
    assert [[k.mlp for k in c.layers] for c in contents] == [["dense", "moe"], ["moe", "moe"]]


def test_multi_token_prediction_lightens_the_last_stage() -> None:
    """DeepSeek-V3's recipes (61 layers, 16 stages) leave the last with at most one layer beside head and prediction."""
    plan = Plan(pp=16, global_batch=16, seq_len=4096, mtp=True)
    contents, _ = stage_contents(preset("deepseek-v3"), plan, 16)
    assert [len(c.layers) for c in contents][-1] <= 1
    assert max(len(c.layers) for c in contents) <= 5
