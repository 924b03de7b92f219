"""Precision: what training in 4 bits leaves in more bits."""

from dataclasses import replace

import pytest

from sim.kernels.shapes import Gemm, GroupedGemm
from sim.program import Compute
from workloads.chunk import Chunk
from workloads.layers import Sizes
from workloads.layout import stage_contents
from workloads.models import model
from workloads.plan import Plan

SUPER = model("nemotron-3-super-120b-a12b")
PLAN = Plan(
    tp=1, dp=64, ep=64, microbatch=1, global_batch=64, seq_len=8192, dtype="nvfp4", mtp=True,
    software="megatron-core",
)  # fmt: skip


def dtypes(plan: Plan) -> list[dict[str, str]]:
    """Precision of every product of every unit's forward."""
    contents, _ = stage_contents(SUPER, plan, 1)
    units = Chunk(Sizes(SUPER, plan), contents[0]).units
    return [
        {
            op.name: op.kernel.dtype
            for part in unit.parts
            for op in part.forward.get("compute", ())
            if isinstance(op, Compute) and isinstance(op.kernel, Gemm | GroupedGemm)
        }
        for unit in units
    ]


def test_last_layers_and_prediction_stay_wide() -> None:
    """Of 88 layers the last 14 (15 %, rounded up) are in bf16; so are the head and what follows."""
    units = dtypes(PLAN)[1:]
    assert len(units) == 88 + 2
    assert all("nvfp4" in found.values() for found in units[: 88 - 14] if "qkv" not in found)
    assert all(set(found.values()) == {"bf16"} for found in units[88 - 14 :])


def test_projections_that_stay_wide() -> None:
    units = dtypes(PLAN)
    mamba = next(found for found in units if "mamba_in" in found)
    attention = next(found for found in units if "qkv" in found)
    moe = next(found for found in units if "expert_up" in found)
    assert (mamba["mamba_in"], mamba["mamba_out"]) == ("nvfp4", "fp8")
    assert (attention["qkv"], attention["attn_out"]) == ("bf16", "bf16")
    assert (moe["latent_down"], moe["expert_up"], moe["latent_up"]) == ("bf16", "nvfp4", "bf16")


@pytest.mark.parametrize("dtype", ["fp8", "bf16"])
def test_only_4_bits_mix(dtype: str) -> None:
    units = dtypes(replace(PLAN, dtype=dtype))[1:89]
    for name in ("mamba_in", "mamba_out", "qkv", "latent_up"):
        assert {found[name] for found in units if name in found} == {dtype}
