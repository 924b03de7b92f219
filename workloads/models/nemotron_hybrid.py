"""Nemotron 3 hybrids: Mamba-2, mixture-of-experts and attention layers, each a layer of its own.

Source: NVIDIA/Megatron-LM tests/functional_tests/test_cases/nemotron/nemotron3_super_release_gb200
and NVIDIA-NeMo/Megatron-Bridge model verification card (Super: 123,611,033,088 parameters, every
exported tensor, 12B active; experts run at width 1,024); NVIDIA Nemotron 3 Nano report, table 1
(31.6B, 3.2B active without embeddings). Super's prediction layer is applied twice and stays in bf16 (NVIDIA-NeMo
Megatron-Bridge 0.6.2, recipes/nemotronh: mtp_num_layers 2, mtp_use_repeated_layer, keep_mtp_spec_in_bf16); the FLOPs
that framework counts a token, 84.3e9 at 8,192, agree with two. Lightning is Nano with that layer, as the same recipes
build it. (Nano's FLOPs are counted there with inner width 2 x hidden in place of 64 heads of 64: 22.3e9 for 20.8e9.)
In a pattern M is Mamba-2, E experts, * attention.
"""

from typing import Any

from workloads.model import LayerKind, Model

LAYERS = {
    "M": LayerKind("mamba", "none"),
    "E": LayerKind("none", "moe"),
    "*": LayerKind("full", "none"),
    "-": LayerKind("none", "dense"),
}
NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
SUPER = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"


def _hybrid(name: str, pattern: str, hidden: int, **traits: Any) -> Model:
    return Model(
        name=name,
        num_layers=len(pattern),
        layer_types=tuple(LAYERS[letter] for letter in pattern),
        hidden_size=hidden,
        num_heads=32,
        num_kv_heads=2,
        head_dim=128,
        ffn_size=0,
        gated_mlp=False,
        vocab_size=131072,
        positions="none",
        mamba_head_dim=64,
        mamba_state_size=128,
        mamba_num_groups=8,
        num_shared_experts=1,
        router_bias=True,
        active_embedding=False,
        **traits,
    )


SMALL = {
    "mamba_num_heads": 64, "num_experts": 128, "experts_per_token": 6, "expert_ffn_size": 1856,
    "shared_ffn_size": 3712,
}  # fmt: skip
"""Sizes of Nano and Lightning."""
MODELS = (
    _hybrid("nemotron-3-nano-30b-a3b", NANO, 2688, **SMALL),
    _hybrid(
        "nemotron-3.5-lightning-30b-a3b", NANO, 2688, **SMALL,
        num_mtp_layers=1, mtp_passes=2, mtp_wide=True,
    ),
    _hybrid(
        "nemotron-3-super-120b-a12b", SUPER, 4096, mamba_num_heads=128,
        num_experts=512, experts_per_token=22, expert_ffn_size=2688, shared_ffn_size=5376,
        moe_latent_size=1024, num_mtp_layers=1, mtp_passes=2, mtp_wide=True, fp4_mixed=True,
    ),
)  # fmt: skip
