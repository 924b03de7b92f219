"""The scoreboard of measured collectives, and the tables it is read into."""

import csv

import numpy as np
import pytest

from experiments.calibration.collectives import calibrate, predict, rewrite, samples
from experiments.collective_command import bus_factor, collective, nccl_table, sweep
from experiments.collective_hardware import UnsupportedError, build, read_hardware
from experiments.score_collectives import score_collectives
from sim.collectives import Communicator
from sim.units import GB, Gbit, GiB, MiB, us
from topologies import cluster
from topologies.link_kinds import link_kinds

COLUMNS = ["source", "hardware", "n_devices", "n_nodes", "collective", "bytes", "time_us"]
# Public measurements: NCCL-tests logs (Azure AI benchmarking guide; AWS p5; OCI; NVIDIA slides).
ROWS = [
    ("azure", "H100-SXM NVLink4 NVLS (NCCL 2.18.5)", 8, 1, "all_reduce", 8589934592, 31391.4),
    ("azure", "H100-SXM NVLink4 NVLS (NCCL 2.18.5)", 8, 1, "all_reduce", 67108864, 324.62),
    ("nvidia", "H100 DGX ring", 8, 1, "all_reduce", 8589934592, 40630),
    ("nvidia", "A100 DGX IB 8x200G", 32, 4, "all_to_all", 8589934592, 346700),
    ("aws", "H100 p5 EFA 32x100G", 16, 2, "all_reduce", 17179869184, 66130),
    ("oci", "MI355X 8x400G", 16, 2, "all_to_all", 8589934592, 92990),
]


def table(tmp_path, rows):
    path = tmp_path / "measured.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return path


def test_published_measurements_within_ten_percent(tmp_path):
    scored = score_collectives(table(tmp_path, ROWS))
    assert [row["status"] for row in scored] == ["ok"] * len(ROWS)
    for row in scored:
        assert row["predicted_time_s"] == pytest.approx(row["measured_time_s"], rel=0.1), row


@pytest.mark.parametrize(
    ("row", "status", "reason"),
    [
        (
            ("s", "A100 cross-node (NIC unstated)", 2, 2, "sendrecv", 1024, 9),
            "unsupported",
            "not stated",
        ),
        (("s", "Abacus", 2, 1, "all_reduce", 1024, 9), "unsupported", "names no server"),
        (("s", "H100", 8, 1, "all_reduce", "", 9), "unsupported", "bytes is blank"),
        (("s", "H100", 8, 1, "all_reduc", 1024, 9), "invalid", "did you mean 'all_reduce'"),
        (("s", "H100", 0, 1, "all_reduce", 1024, 9), "invalid", "n_devices='0'"),
        (("s", "H100", 8, 1, "all_reduce", -8, 9), "invalid", "above zero"),
        (("s", "H100", 9, 2, "all_reduce", 1024, 9), "invalid", "evenly"),
        (
            ("s", "H100", 8, 1, "all_reduce", "1 KiB", 9),
            "invalid",
            "bytes='1 KiB' must be a number",
        ),
        (
            ("s", "H100", 8, 1, "all_reduce", 1024, "fast"),
            "invalid",
            "time_us='fast' must be a num",
        ),
        (("s", "H100", 8, 1, "all_reduce", 1024, "nan"), "invalid", "time_us='nan' must be a num"),
        (("s", "H100", "eight", 1, "all_reduce", 1024, 9), "invalid", "n_devices='eight'"),
        (("s", "H100", 8, 1, "all_reduce", 1024, 9, 7), "invalid", "'7' stands in no column"),
    ],
)
def test_rows_that_cannot_be_scored_say_why(tmp_path, row, status, reason):
    (scored,) = score_collectives(table(tmp_path, [row]))
    assert scored["status"] == status
    assert reason in scored["reason"]
    assert scored["predicted_time_s"] is None


@pytest.mark.parametrize(
    ("text", "device", "nic", "nics", "rate", "algorithm"),
    [
        ("H100 DGX IB 8x400G NVLSTree", "h100-sxm", "ndr-400", 8, 400, "nvls_tree"),
        ("A100-80 p4de EFA 4x100G", "a100-80-sxm", "efa", 4, 100, "auto"),
        ("H100 A3 Mega GPUDirect-TCPXO 8x200G", "h100-sxm", "tcpxo", 8, 200, "auto"),
        ("B200 8xCX7 NDR", "b200-sxm", "ndr-400", 8, 400, "auto"),
        ("A100-40 RoCE BM.GPU4.8 16x100G", "a100-40-sxm", "roce-100", 16, 100, "auto"),
        ("GB200 NVL72 ring", "gb200", "ndr-400", 4, 400, "ring"),
        ("H200-SXM NVLink4 (ring, NVLS off)", "h200-sxm", "ndr-400", 8, 400, "ring"),
        ("MI355X AINIC 8x400G", "mi355x", "roce-400", 8, 400, "auto"),
    ],
)
def test_hardware_is_read_by_its_parts(text, device, nic, nics, rate, algorithm):
    machine = read_hardware(text)
    host = machine.host
    assert (host.device, host.nic, host.nics, machine.algorithm) == (device, nic, nics, algorithm)
    assert host.nic_bandwidth == rate * Gbit


def test_a_machine_is_just_large_enough():
    machine, devices = build(read_hardware("H100 DGX"), 8, 2)
    assert machine.num_devices == 16
    assert devices.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    rack, devices = build(read_hardware("GB200 NVL72"), 18, 5)
    assert len(set(rack.domain[devices])) == 1
    with pytest.raises(UnsupportedError):
        read_hardware("V100 8-GPU health threshold")


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all_reduce", 1.75),
        ("all_gather", 0.875),
        ("reduce_scatter", 0.875),
        ("all_to_all", 0.875),
        ("broadcast", 1.0),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(kind, factor):
    assert bus_factor(kind, 8) == factor
    answer = collective(kind, cluster("h100-host"), GiB)
    assert answer["algbw_Bps"] == pytest.approx(GiB / answer["time_s"])
    assert answer["busbw_Bps"] == pytest.approx(factor * answer["algbw_Bps"])
    assert answer["time_s"] == pytest.approx(answer["latency_s"] + answer["bandwidth_s"])
    assert "->" in answer["bottleneck"]


def test_sweep_is_the_table_of_nccl_tests():
    rows = sweep("all_gather", cluster("h100-host"))
    assert [row["size"] for row in rows] == [8 * 2**i for i in range(32)]
    text = nccl_table(rows).splitlines()
    assert (
        text[1].split()
        == ["#", "size", "count", "type", "redop", "root"]
        + ["time", "algbw", "busbw", "#wrong"] * 2
    )
    last = text[-1].split()
    assert last[:5] == [str(int(16 * GiB)), str(int(16 * GiB) // 4 // 8), "float", "none", "-1"]
    assert float(last[6]) == pytest.approx(16 * GiB / GB / (float(last[5]) * us), abs=0.01)
    assert last[5:9] == last[9:13]


def test_time_never_falls_as_bytes_grow():
    for kind in ("all_reduce", "all_gather", "all_to_all", "send_recv"):
        times = [row["time_us"] for row in sweep(kind, cluster("h100-fat-tree", 16))]
        assert (np.diff(times) >= 0).all()


def test_calibration_recovers_the_constants_it_is_given(tmp_path):
    hardware, n = "B200 NVLink5", 8
    machine, devices = build(read_hardware(hardware), n, 1)
    comm = Communicator(machine, devices)
    sizes = [MiB * 2.0**i for i in range(-6, 12)]
    rows = [
        ("made", hardware, n, 1, k, s, comm.plan(k, s).alone / us)
        for k in ("all_gather", "reduce_scatter")
        for s in sizes
    ]
    path = table(tmp_path, rows)
    found = samples(path)
    assert len(found) == 2
    fitted = calibrate(found, link_kinds())
    kinds = fitted.table(link_kinds())
    for sample in found:
        assert predict(sample, kinds) == pytest.approx(sample.seconds, rel=0.1)
    assert "efficiency = " in rewrite("[nvlink5]\n[nvlink5.constants]\nunits = 1\n", fitted)
