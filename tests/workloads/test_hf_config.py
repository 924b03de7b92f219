"""config.json readers: parameter counts are those of the published checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.errors import PlanError
from workloads.counts import num_params
from workloads.hf_config import model_from_hf
from workloads.model import LayerKind

CONFIGS = Path(__file__).parent / "configs"
COUNTS = {
    "llama3-8b": 8_030_261_248,
    "gpt2": 124_439_808,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-30b-a3b": 30_532_122_624,
    "deepseek-v3": 671_026_419_200,
    "deepseek-v2-lite": 15_706_484_224,
    "gemma2-9b": 9_241_705_984,
    "gemma3-4b": 3_880_263_168,
    "falcon-7b": 6_921_720_704,
    "falcon-40b": 41_303_293_952,
    "gpt-neox-20b": 20_554_567_680,
    "gpt-j-6b": 6_050_882_784,
    "bloom-7b1": 7_069_016_064,
    "opt-6.7b": 6_658_473_984,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "olmo-7b": 6_888_095_744,
    "olmo2-7b": 7_298_617_344,
    "gpt-oss-20b": 20_914_757_184,
    "llama4-scout": 107_769_861_120,
    "llama4-maverick": 400_711_848_960,
    "mpt-7b": 6_649_286_656,
}


def config(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CONFIGS / f"{name}.json").read_text())
    return loaded


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_counts_of_published_checkpoints(name: str) -> None:
    model, _ = model_from_hf(config(name), name)
    assert num_params(model) == COUNTS[name]


def test_every_fixture_is_tested() -> None:
    assert {path.stem for path in CONFIGS.glob("*.json")} == set(COUNTS)
