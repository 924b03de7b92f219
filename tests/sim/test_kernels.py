"""Kernel times: by hand on a device of round numbers, then rules every shipped device keeps."""

import itertools
import math
from dataclasses import replace

import pytest

from sim.device import Device
from sim.errors import InputError
from sim.kernels import kernel_time, steady
from sim.kernels.attention import unfused
from sim.kernels.gemm import tile_set
from sim.kernels.shapes import Attention, Gemm, GroupedGemm, Memory
from topologies.devices import DEVICES, device

TILE = 128
UNITS = 4


def toy(**constants: float) -> Device:
    """4 units, 128 x 128 tiles only, 1 FLOP/ns a unit... all overheads zero unless given."""
    base = {
        "tile.smallest": TILE * TILE, "tile.largest": TILE * TILE,
        "gemm.bf16.sustained": 1.0, "gemm.bf16.start": 0.0, "gemm.bf16.fill": 0.0,
        "gemm.bf16.edge": 0.0, "gemm.cache": math.inf, "gemm.bandwidth": 1.0, "gemm.exposed": 0.0,
        "memory.bandwidth": 0.5, "memory.start": 3.0,
        "attention.start": 0.0, "attention.sustained": 1.0, "attention.softmax": 0.0,
        "attention.fill": 0.0, "attention.diagonal": 0.0,
    }  # fmt: skip
    return Device(
        name="toy", vendor="nobody", kind="gpu", peak={"bf16": 2.0 * TILE * TILE * UNITS},
        memory_bytes=1e9, memory_bandwidth=1e30, compute_units=UNITS,
        calibration=base | constants,
    )  # fmt: skip


class TestGemm:
    def test_one_tile_a_unit_takes_k_seconds(self) -> None:
        assert kernel_time(Gemm(2 * TILE, 2 * TILE, 1000), toy()) == 1000.0

    def test_one_more_tile_takes_another_wave(self) -> None:
        assert kernel_time(Gemm(4 * TILE, TILE, 1000), toy()) == 1000.0
        assert kernel_time(Gemm(4 * TILE + 1, TILE, 1000), toy()) == 2000.0

    def test_padding_costs_a_whole_tile(self) -> None:
        assert kernel_time(Gemm(4 * TILE - 100, TILE, 1000), toy()) == 1000.0

    def test_batch_fills_the_units(self) -> None:
        assert kernel_time(Gemm(TILE, TILE, 1000, batch=4), toy()) == 1000.0

    def test_few_tiles_split_the_contracted_dimension(self) -> None:
        """One tile on four units: in four parts of 250 (partial sums cost nothing here)."""
        assert kernel_time(Gemm(TILE, TILE, 1000), toy()) == pytest.approx(250.0)

    def test_start_and_fill_add(self) -> None:
        d = toy(**{"gemm.bf16.start": 7.0, "gemm.bf16.fill": 100.0})
        assert kernel_time(Gemm(2 * TILE, 2 * TILE, 1000), d) == 1107.0

    def test_operands_through_the_cache_add(self) -> None:
        """4 tiles x 256 rows and columns x k 1000 x 2 bytes at 2,048 bytes/s."""
        d = toy(**{"gemm.cache": 2048.0})
        assert kernel_time(Gemm(2 * TILE, 2 * TILE, 1000), d) == 1000.0 + 1000.0

    def test_traffic_overlaps_but_for_its_exposed_share(self) -> None:
        gemm = Gemm(2 * TILE, 2 * TILE, 1000)
        d = toy(**{"gemm.bandwidth": gemm.nbytes / 500.0 / 1e30, "gemm.exposed": 0.25})
        assert kernel_time(gemm, d) == pytest.approx(1000.0 + 0.25 * 500.0)

    def test_boost_fades_with_duration(self) -> None:
        d = toy(**{"gemm.boost": 2.0, "gemm.settle": 1000.0})
        short, long = Gemm(2 * TILE, 2 * TILE, 10), Gemm(2 * TILE, 2 * TILE, 1_000_000)
        assert kernel_time(short, d) == pytest.approx(5.0, rel=1e-3)
        assert kernel_time(long, d) == pytest.approx(1e6, rel=1e-3)
        assert kernel_time(short, steady(d)) == 10.0
        assert steady(d) is steady(d)

    def test_tiles_are_bounded_by_area_and_aspect(self) -> None:
        shapes = {(a, b) for a, b, _ in tile_set(64 * 128, 128 * 256)}
        assert shapes == {
            (64, 128),
            (128, 64),
            (128, 128),
            (64, 256),
            (256, 64),
            (128, 256),
            (256, 128),
        }
        assert min(extra for _, _, extra in tile_set(4096, 32768)) == 0.0

    def test_a_dtype_never_measured_costs_the_same_seconds_to_fill(self) -> None:
        d = toy(**{"gemm.bf16.fill": 100.0})
        twice = Device(
            name="toy2", vendor="nobody", kind="gpu", memory_bytes=1e9, memory_bandwidth=1e30,
            compute_units=UNITS, calibration=d.calibration,
            peak={"bf16": d.peak["bf16"], "fp8": 2 * d.peak["bf16"]},
        )  # fmt: skip
        assert kernel_time(Gemm(2 * TILE, 2 * TILE, 1000, dtype="fp8"), twice) == 500.0 + 100.0


class TestGrouped:
    def test_one_group_is_a_product(self) -> None:
        d = toy()
        assert kernel_time(GroupedGemm(1, 256, 256, 1000), d) == kernel_time(
            Gemm(256, 256, 1000), d
        )

    def test_groups_share_the_units(self) -> None:
        d = toy(**{"gemm.group_start": 5.0, "gemm.grouped": 2.0})
        assert kernel_time(GroupedGemm(4, TILE, TILE, 1000), d) == 2000.0 + 4 * 5.0

    def test_a_tile_two_groups_share_is_done_for_each(self) -> None:
        """Four groups of 512 rows in one list of tiles of 512: three tiles more, 7 / 4 of the products."""
        d = toy(**{"gemm.ragged": 512.0})
        kernel = GroupedGemm(4, 512, TILE, 1000)
        assert kernel_time(kernel, d) == 7 / 4 * kernel_time(kernel, toy())
        assert kernel_time(GroupedGemm(1, 512, TILE, 1000), d) == kernel_time(
            GroupedGemm(1, 512, TILE, 1000), toy()
        )

    def test_weight_gradient_contracts_over_rows(self) -> None:
        d = toy()
        assert kernel_time(GroupedGemm(1, 1000, 256, 256, wgrad=True), d) == 1000.0


SHAPE = {"batch": 1, "heads": 4, "kv_heads": 4, "seq_q": 1024, "seq_kv": 1024, "head_dim": 128}


class TestAttention:
    def test_flops_over_rate(self) -> None:
        kernel = Attention(**SHAPE, causal=False)
        assert kernel_time(kernel, toy()) == pytest.approx(
            4 * 4 * 1024**2 * 128 / toy().peak["bf16"]
        )

    def test_causal_halves_and_backward_costs_five_products_for_two(self) -> None:
        d = toy()
        full = kernel_time(Attention(**SHAPE, causal=False), d)
        assert kernel_time(Attention(**SHAPE, causal=True), d) == pytest.approx(full / 2)
        backward = kernel_time(Attention(**SHAPE, causal=False, direction="bwd"), d)
        assert backward == pytest.approx(2.5 * full)

    def test_overheads_are_of_head_size_and_keys(self) -> None:
        d = toy(
            **{"attention.softmax": 128.0, "attention.fill": 512.0, "attention.diagonal": 512.0}
        )
        full = Attention(**SHAPE, causal=False)
        causal = Attention(**SHAPE, causal=True)
        assert kernel_time(full, d) == pytest.approx(2 * 1.5 * kernel_time(full, toy()))
        assert kernel_time(causal, d) == pytest.approx(2 * 3.0 * kernel_time(causal, toy()))

    def test_a_window_has_two_edges(self) -> None:
        """64 keys in vain at the diagonal, and 64 where the window ends; a window of the whole sequence has no end."""
        d = toy(**{"attention.diagonal": 64.0})
        windowed = Attention(**SHAPE, causal=True, window=512)
        keys = windowed.num_scores / SHAPE["seq_q"]
        ratio = kernel_time(windowed, d) / kernel_time(windowed, toy())
        assert ratio == pytest.approx(1 + 2 * 64 / keys)
        wide = Attention(**SHAPE, causal=True, window=1024)
        assert kernel_time(wide, d) == kernel_time(Attention(**SHAPE, causal=True), d)

    def test_products_pad_heads_to_matrix_units_and_the_softmax_does_not(self) -> None:
        """Heads of 192 and 128: at 192 and 192 in a kernel of one width, at 256 and 256 on units 128 wide."""
        latent = SHAPE | {"head_dim": 192, "v_head_dim": 128, "causal": False}
        plain = kernel_time(Attention(**latent, implementation="cudnn"), toy())
        for implementation, unit, width in (
            ("xla", 1.0, 192),
            ("xla", 128.0, 256),
            ("cudnn", 128.0, 192),
        ):
            d = toy(**{"tile.width": unit})
            kernel = Attention(**latent, implementation=implementation)
            assert kernel_time(kernel, d) == pytest.approx(plain * width / 160)
        half = toy(**{"tile.width": 256.0, "attention.softmax": 64.0})
        kernel = Attention(**SHAPE, causal=False)
        assert kernel_time(kernel, half) == pytest.approx((2 + 0.5) * kernel_time(kernel, toy()))

    def test_a_generation_never_measured_uses_its_elder(self) -> None:
        a100 = device("a100-80-sxm")
        two = kernel_time(Attention(**SHAPE, implementation="fa2"), a100)
        assert kernel_time(Attention(**SHAPE, implementation="fa3"), a100) == two
        assert kernel_time(Attention(**SHAPE, implementation="fa1"), a100) > two

    def test_narrow_numbers_speed_up_products_and_not_the_softmax(self) -> None:
        d = toy(**{"attention.softmax": 128.0})
        both = replace(d, peak={**d.peak, "fp8": 2 * d.peak["bf16"]})
        wide, narrow = (kernel_time(Attention(**SHAPE, dtype=t), both) for t in ("bf16", "fp8"))
        assert narrow == pytest.approx(wide * (0.5 + 1.0) / 2.0)

    def test_no_scores_cost_a_start(self) -> None:
        d = toy(**{"attention.start": 7.0})
        assert kernel_time(Attention(1, 1, 1, 64, 0, 128), d) == 7.0

    def test_unfused_does_the_same_products_and_moves_the_scores(self) -> None:
        for direction, share in (("fwd", 1.0), ("bwd", 0.8)):
            kernel = Attention(**SHAPE, causal=False, direction=direction)
            ops = unfused(kernel)
            products = sum(op.flops for op in ops if isinstance(op, Gemm))
            assert products == pytest.approx(share * kernel.flops)  # nothing is recomputed
            assert sum(op.nbytes for op in ops if isinstance(op, Memory)) >= 4 * 2 * 4 * 1024**2

    def test_fused_beats_unfused(self) -> None:
        h100 = device("h100-sxm")
        kernel = Attention(**{**SHAPE, "seq_q": 8192, "seq_kv": 8192}, implementation="fa2")
        assert kernel_time(kernel, h100) < sum(kernel_time(op, h100) for op in unfused(kernel)) / 3


def test_memory_is_start_and_bytes() -> None:
    d = toy(**{"memory.norm": 0.25})
    assert kernel_time(Memory("add", 1e30), d) == 3.0 + 2.0
    assert kernel_time(Memory("norm", 1e30), d) == 3.0 + 4.0


def test_bad_input_names_value_and_way_out() -> None:
    with pytest.raises(InputError, match="unknown dtype 'bf17'; did you mean 'bf16'"):
        kernel_time(Gemm(1, 1, 1, dtype="bf17"), toy())
    with pytest.raises(InputError, match="v100-32 has no bf16 peak; choose from fp16, fp32"):
        kernel_time(Gemm(1, 1, 1, dtype="bf16"), device("v100-32"))
    constants = {k: v for k, v in toy().calibration.items() if k != "gemm.bf16.fill"}
    bare = replace(toy(), calibration=constants)
    with pytest.raises(InputError, match=r"no constant gemm.bf16.fill; fit it or inherit it"):
        kernel_time(Gemm(1, 1, 1), bare)
    with pytest.raises(InputError, match="kernels are Attention, Chunked, Gemm"):
        kernel_time("gemm", toy())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DEVICES)
class TestEveryDevice:
    """Rules no device may break: the roofline, monotony, sane rates for every dtype it has."""

    def test_no_product_beats_the_data_sheet(self, name: str) -> None:
        d = device(name)
        for dtype, peak in d.peak.items():
            for side in (256, 1000, 4096, 16384):
                kernel = Gemm(side, side, side, dtype=dtype)
                seconds = kernel_time(kernel, d)
                assert seconds >= kernel.flops / peak
                assert seconds >= kernel.nbytes / d.memory_bandwidth
                if (d.power or 0.0) <= d.calibration.get("gemm.power", d.power or 0.0):
                    assert kernel_time(kernel, steady(d)) >= seconds * (1 - 1e-12)

    def test_large_products_reach_a_fair_share_of_peak(self, name: str) -> None:
        d = device(name)
        dtype = "bf16" if "bf16" in d.peak else "fp16"
        kernel = Gemm(16384, 16384, 16384, dtype=dtype)
        assert 0.4 <= kernel.flops / kernel_time(kernel, d) / d.peak[dtype] <= 0.96

    def test_more_work_is_never_faster(self, name: str) -> None:
        d = device(name)
        dtype = "bf16" if "bf16" in d.peak else "fp16"
        times = [kernel_time(Gemm(m, 4096, 4096, dtype=dtype), d) for m in range(256, 8192, 256)]
        assert all(b >= a * (1 - 1e-12) for a, b in itertools.pairwise(times))

    def test_attention_and_memory_keep_their_rooflines(self, name: str) -> None:
        d = device(name)
        dtype = "bf16" if "bf16" in d.peak else "fp16"
        for implementation in ("fa1", "fa2", "fa3", "cudnn", "te", "triton"):
            for direction in ("fwd", "bwd"):
                kernel = Attention(
                    4, 32, 8, 8192, 8192, 128,
                    direction=direction, dtype=dtype, implementation=implementation,
                )  # fmt: skip
                assert kernel_time(kernel, d) > kernel.flops / d.peak[dtype]
        assert kernel_time(Memory("add", 1e9), d) > 1e9 / d.memory_bandwidth


def test_published_products_of_a_training_step() -> None:
    """NVIDIA's A100 reaches 240 to 260 TFLOP/s, a hot H100 650 to 730, in the large products of a model."""
    shape = (8192, 13312, 16384)
    for name, low, high in (("a100-80-sxm", 235e12, 265e12), ("h100-sxm", 650e12, 730e12)):
        kernel = Gemm(*shape)
        assert low <= kernel.flops / kernel_time(kernel, steady(device(name))) <= high
