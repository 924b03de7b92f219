"""Scoring measured kernels: how rows are read, what is refused, and how the constants are fitted."""

import csv
import dataclasses
import math
from pathlib import Path

import pytest

from experiments.calibration.files import MARKER, write_calibration
from experiments.calibration.jobs import JOBS, Job, Part
from experiments.calibration.kernels import Point, fit, points, range_of, summary, usable
from experiments.score_kernels import flops_of, kernels_of, measured_time, score_kernels
from sim.kernels import kernel_time
from sim.kernels.shapes import Attention, Gemm, GroupedGemm, Memory
from topologies.devices import DEVICES, device

COLUMNS = (
    *("source", "device", "kernel", "dtype", "m", "n", "k", "groups", "batch", "seqlen", "heads"),
    *("head_dim", "causal", "pass", "tflops", "bytes", "frac_hbm", "time_us", "note"),
)

PUBLISHED = [
    # Azure AI benchmarking guide, ND A100 v4 and ND H100 v5 results (cuBLASLt, random inputs).
    {"device": "A100-SXM", "kernel": "gemm", "dtype": "fp16", "m": 8192, "n": 8192, "k": 8192, "time_us": 4333.9},
    {"device": "H100-SXM", "kernel": "gemm", "dtype": "fp8", "m": 8192, "n": 8192, "k": 8192, "time_us": 852.3},
    # DeepGEMM README: dense and grouped (rows a group, four groups).
    {"device": "H800-SXM", "kernel": "gemm", "dtype": "fp8", "m": 4096, "n": 7168, "k": 16384, "tflops": 1358},
    {"device": "H800-SXM", "kernel": "grouped_gemm_contig", "dtype": "fp8", "m": 8192, "n": 4096, "k": 7168,
     "groups": 4, "tflops": 1297},
    # FlashAttention-2 on A100 and FlashAttention-3 paper figures on H100.
    {"device": "A100-SXM", "kernel": "attention_fa2", "dtype": "fp16", "batch": 8, "seqlen": 2048, "heads": "16",
     "head_dim": "128", "causal": "0.0", "pass": "fwd+bwd", "tflops": 187},
    {"device": "H100-SXM", "kernel": "attention_fa3", "dtype": "fp16", "batch": 4, "seqlen": 4096, "heads": "32",
     "head_dim": "64", "causal": "0.0", "pass": "fwd", "tflops": 476},
]  # fmt: skip


def table(tmp_path: Path, rows: list[dict[str, object]]) -> Path:
    path = tmp_path / "kernels.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def row(**fields: object) -> dict[str, str]:
    base = dict.fromkeys(COLUMNS, "") | {
        "device": "H100-SXM",
        "kernel": "gemm",
        "dtype": "bf16",
    }
    return base | {key.rstrip("_"): str(value) for key, value in fields.items()}


def test_published_kernels_are_predicted(tmp_path: Path) -> None:
    rows = score_kernels(table(tmp_path, PUBLISHED))
    assert [r["row"] for r in rows] == list(range(len(PUBLISHED)))
    for r in rows:
        assert r["status"] == "ok", r["reason"]
        assert r["predicted_time_s"] == pytest.approx(r["measured_time_s"], rel=0.15)


class TestReading:
    def test_gemm_reads_layout_notes(self) -> None:
        kernel = kernels_of(
            row(m="4096.0", n=1536, k=5120, note="layout=NT accumulate=True out=fp32")
        )
        assert kernel == (Gemm(4096, 1536, 5120, out_bytes=4.0, accumulate=True),)
        (plain,) = kernels_of(row(m=1, n=2, k=3, batch="4.0", dtype="FP8"))
        assert plain == Gemm(1, 2, 3, batch=4, dtype="fp8", out_bytes=2.0)
        (wide,) = kernels_of(row(m=1, n=2, k=3, dtype="tf32"))
        assert isinstance(wide, Gemm)
        assert wide.out_bytes == 4.0

    def test_grouped_rows_are_per_group_and_wgrad_accumulates(self) -> None:
        (kernel,) = kernels_of(
            row(kernel="grouped_gemm", m=154, n=3072, k=5120, groups=160, pass_="bwd_grad_w",
                note="m is per group; main_grad fp32")
        )  # fmt: skip
        assert kernel == GroupedGemm(160, 154, 3072, 5120, wgrad=True, out_bytes=4.0)
        assert kernel.flops == 2 * 160 * 154 * 3072 * 5120

    def test_attention_reads_pairs(self) -> None:
        (kernel,) = kernels_of(
            row(kernel="attention_te", batch=1, seqlen=4096, heads="16q/2kv", head_dim="192qk/128v",
                causal="1.0", pass_="bwd")
        )  # fmt: skip
        assert kernel == Attention(
            1, 16, 2, 4096, 4096, 192, v_head_dim=128, direction="bwd", implementation="te"
        )

    def test_attention_flops_follow_the_flash_convention(self) -> None:
        fields = {"batch": 2, "seqlen": 1024, "heads": 16, "head_dim": 128, "tflops": 100}
        forward = 4 * 2 * 16 * 1024**2 * 128
        for name in ("attention_fa2", "attention_unfused"):
            for causal, passes, flops in (
                (0, "fwd", forward), (1, "fwd", forward / 2), (0, "bwd", 2.5 * forward),
                (1, "fwd+bwd", 3.5 * forward / 2),
            ):  # fmt: skip
                r = row(kernel=name, causal=causal, pass_=passes, **fields)
                assert flops_of(r, kernels_of(r)) == flops
                assert measured_time(r, kernels_of(r)) == pytest.approx(flops / 100e12)

    def test_memory(self) -> None:
        assert kernels_of(row(kernel="mem_add", bytes=1e6)) == (Memory("add", 1e6),)
        assert kernels_of(row(kernel="mem_input_layernorm", bytes=1e6)) == (
            Memory("serving_norm", 1e6),
        )


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"m": "many", "n": 1, "k": 1, "time_us": 1}, "invalid", "m='many' is not a number"),
        ({"n": 1, "k": 1, "time_us": 1}, "invalid", "m='' is not a number"),
        ({"m": -1, "n": 1, "k": 1, "time_us": 1}, "invalid", "m=-1 must be positive"),
        ({"m": 1.5, "n": 1, "k": 1, "time_us": 1}, "invalid", "m=1.5 must be a whole number"),
        ({"m": "nan", "n": 1, "k": 1, "time_us": 1}, "invalid", "m=nan must be positive and finite"),
        ({"m": 1, "n": 1, "k": 1, "time_us": "fast"}, "invalid", "time_us='fast' is not a number"),
        ({"m": 1, "n": 1, "k": 1, "time_us": 1, "device": "abacus"}, "invalid", "unknown device 'abacus'"),
        ({"m": 1, "n": 1, "k": 1, "time_us": 1, "dtype": "posit8"}, "invalid", "dtype='posit8' is unknown"),
        ({"m": 1, "n": 1, "k": 1, "time_us": 1, "dtype": "fp4"}, "invalid", "h100-sxm has no fp4 peak"),
        ({"m": 1, "n": 1, "k": 1, "time_us": 1, "kernel": ""}, "invalid", "kernel is blank"),
        ({"m": 1, "n": 1, "k": 1}, "unsupported", "neither time_us nor tflops"),
        ({"kernel": "model_curve_gemm", "tflops": 1}, "unsupported", "is not modelled"),
        ({"kernel": "stream_triad"}, "unsupported", "no bytes"),
        ({"kernel": "attention_sparse_mla_x", "time_us": 1}, "unsupported", "keys a query reads"),
        ({"kernel": "attention_fa2", "heads": "lots", "time_us": 1}, "invalid", "heads='lots'"),
        ({"kernel": "attention_fa2", "heads": 8, "head_dim": 64, "seqlen": 64, "time_us": 1},
         "unsupported", "neither fwd nor bwd"),
        ({"kernel": "attention_fa2", "heads": 8, "head_dim": 64, "seqlen": 64, "pass": "fwd",
          "causal": "perhaps", "time_us": 1}, "invalid", "causal='perhaps' is not a flag"),
        ({"kernel": "attention_fa2", "heads": -8, "time_us": 1}, "invalid", "heads='-8' is not one or two counts"),
        ({"kernel": "attention_fa2", "heads": "0q/2kv", "time_us": 1}, "invalid", "heads='0q/2kv'"),
        ({"kernel": "attention_fa2", "heads": 8.5, "time_us": 1}, "invalid", "heads='8.5'"),
    ],
)  # fmt: skip
def test_a_bad_row_is_reported_and_the_rest_go_on(
    tmp_path: Path, fields: dict[str, object], status: str, reason: str
) -> None:
    bad, good = score_kernels(table(tmp_path, [row() | fields, PUBLISHED[0]]))
    assert bad["status"] == status
    assert reason in bad["reason"]
    assert bad["predicted_time_s"] is None
    assert good["status"] == "ok"


def test_a_missing_column_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("kernel,m,n,k\ngemm,1,1,1\n", encoding="utf-8")
    (answer,) = score_kernels(path)
    assert answer["status"] == "invalid"
    assert "column device is missing" in answer["reason"]


class TestCalibration:
    def test_jobs_are_well_formed(self) -> None:
        seen: set[str] = set()
        for job in JOBS:
            assert {job.device, *job.measured} <= set(DEVICES)
            assert job.device not in seen
            seen.add(job.device)
            for name, part in job.parts.items():
                for constant in part.free:
                    low, high, start = range_of(f"{name.split('#')[0]}.{constant}")
                    assert low <= start <= high

    def test_a_search_recovers_constants_it_did_not_start_from(self) -> None:
        """Points made by the model itself: the fit must come back to the constants that made them."""
        truth = {"gemm.bf16.sustained": 0.6, "gemm.bf16.start": 9e-6}
        h100 = device("h100-sxm")
        made = dataclasses.replace(h100, calibration={**h100.calibration, **truth})
        shapes = [Gemm(m, n, 4096) for m in (256, 1024, 4096) for n in (256, 2048, 8192)]
        data = {
            "gemm.bf16": [
                Point((g,), "h100-sxm", kernel_time(g, made), 1.0, (str(g),), "made")
                for g in shapes
            ]
        }
        job = Job(
            device="h100-sxm",
            measured=("h100-sxm",),
            parts={"gemm.bf16": Part(("gemm",), ("bf16",), free=("sustained", "start"))},
        )
        found = fit(job, data)
        assert found["gemm.bf16.sustained"] == pytest.approx(0.6, rel=0.03)
        assert found["gemm.bf16.start"] == pytest.approx(9e-6, rel=0.05)
        assert summary(data["gemm.bf16"], found)[0] < 0.02

    def test_suspect_rows_teach_nothing(self) -> None:
        big = (Gemm(4096, 4096, 4096),)
        assert usable({"note": "best of 100"}, big, 1.0)
        assert not usable({"note": "suspect: above the maximum"}, big, 1.0)
        assert not usable({"note": "includes launch; 1 us resolution"}, big, 5e-6)
        assert not usable({"note": ""}, (Gemm(64, 64, 64),), 1.0)

    def test_a_family_of_shapes_counts_by_its_root(self) -> None:
        rows = [row(source="s", m=m, n=4096, k=4096, time_us=200) for m in (1024, 2048, 4096, 8192)]
        job = next(job for job in JOBS if job.device == "h100-sxm")
        data = points(rows, job, job.parts["gemm.bf16"])
        assert [point.weight for point in data] == [1 / math.sqrt(4)] * 4

    def test_writing_keeps_what_people_wrote(self, tmp_path: Path) -> None:
        path = tmp_path / "x.toml"
        path.write_text('name = "x"\n', encoding="utf-8")
        for value in (0.5, 0.75):
            write_calibration("x", {"gemm.bf16.sustained": value}, ["two rows"], folder=tmp_path)
        text = path.read_text(encoding="utf-8")
        assert text == (
            f'name = "x"\n\n{MARKER}\n# two rows\n\n[fitted.gemm.bf16]\nsustained = 0.75\n'
        )
