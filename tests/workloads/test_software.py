"""Software profiles: few, made of documented switches, with few numbers."""

from dataclasses import fields

import pytest

import workloads.software as module
from sim.errors import PlanError
from workloads.layers import Sizes
from workloads.model import Model
from workloads.plan import Plan
from workloads.software import SOFTWARE, Software, software

SMALL = Model(
    name="small", num_layers=2, hidden_size=512, num_heads=8, num_kv_heads=8, head_dim=64,
    ffn_size=2048, vocab_size=2048,
)  # fmt: skip


def test_there_are_at_most_eight_profiles_and_ten_numbers() -> None:
    assert len(SOFTWARE) <= 8
    numbers = [n for n, v in vars(module).items() if n.isupper() and isinstance(v, float)]
    assert len(numbers) <= 10
    assert {s.launch for s in SOFTWARE.values()} <= {0.0, *(getattr(module, n) for n in numbers)}


@pytest.mark.parametrize("name", SOFTWARE)
def test_a_profile_is_found_by_its_name_and_says_what_it_is(name) -> None:
    assert software(name) is SOFTWARE[name]
    assert software(name).name == name
    assert software(name).description


def test_every_switch_is_documented() -> None:
    plain = ("name", "description", "fused_optimizer")
    for field in fields(Software):
        if field.name not in plain:
            assert f"``{field.name}``" in (Software.__doc__ or ""), field.name


def test_an_unknown_profile_suggests_near_ones() -> None:
    with pytest.raises(
        PlanError, match=r"unknown software 'megatron-cor'; did you mean 'megatron-core"
    ):
        software("megatron-cor")


def test_fused_wgrad_accumulates_in_the_product() -> None:
    """Else each weight gradient is added to the buffer by a kernel of its own."""

    def backward(name: str) -> list[str]:
        from workloads.layers.linear import column

        sizes = Sizes(SMALL, Plan(global_batch=2, seq_len=256, software=name))
        return [op.name for op in column(sizes, "x", 512, 512).both["compute"]]

    assert backward("megatron-core") == ["x.dgrad", "x.wgrad"]
    assert backward("megatron-2021") == ["x.dgrad", "x.wgrad", "x.grad_add"]


def test_async_tp_hides_the_input_gradients_reduction() -> None:
    from workloads.layers.linear import column

    def streams(name: str) -> set[str]:
        sizes = Sizes(SMALL, Plan(tp=2, global_batch=1, seq_len=256, software=name))
        return set(column(sizes, "x", 512, 256).both)

    assert streams("megatron-2022") == {"compute", "tp"}
    assert streams("megatron-2021") == {"compute"}
