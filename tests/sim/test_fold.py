"""Folding: which ranks are alike, and that playing one of each gives every rank's spans."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.cluster import Cluster
from sim.engine import LinkChange, simulate
from sim.fold import fold
from sim.program import Collective, Program, Recv, Segment, Send
from sim.timeline import Timeline
from tests.sim.hand_made import F0, UNIT, alike, bars, kernel, pods, program, star
from topologies import cluster
from workloads.lower import lower
from workloads.model import Model
from workloads.plan import Plan

DENSE = Model(
    name="dense", num_layers=4, hidden_size=1536, num_heads=24, num_kv_heads=8, head_dim=64,
    ffn_size=6144, vocab_size=4096,
)  # fmt: skip
EXPERTS = Model(
    name="experts", num_layers=4, hidden_size=768, num_heads=24, num_kv_heads=24, head_dim=32,
    ffn_size=1536, vocab_size=4096, num_experts=24, experts_per_token=2, expert_ffn_size=768,
)  # fmt: skip
US = 1e-6
SUM = Collective("sum", "all_reduce", "tp", 4.0)


def folding(program: Program, machine: Cluster):
    return fold(program, machine, np.arange(program.num_ranks))


def apart(program: Program, machine: Cluster, **more: object) -> tuple[float, int]:
    """Largest difference of any time of any rank's spans, folded or not, over the step; number of classes."""
    folded = simulate(program, machine, **more)
    unfolded = simulate(program, machine, unfolded=True, **more)
    assert unfolded.num_classes == program.num_ranks
    worst = max(difference(folded, unfolded, rank) for rank in range(program.num_ranks))
    return worst / unfolded.step_time, folded.num_classes


def difference(a: Timeline, b: Timeline, rank: int) -> float:
    mine = list(a.spans(a.class_of_rank(rank)))
    other = list(b.spans(b.class_of_rank(rank)))
    assert [s.op for s in mine] == [s.op for s in other]
    assert [s.action for s in mine] == [s.action for s in other]
    times = [np.array([s[2:] for s in spans]) for spans in (mine, other)]
    return float(np.abs(times[0] - times[1]).max(initial=0.0))


# Which ranks are alike


def test_ranks_of_one_script_on_equal_devices_are_one_class() -> None:
    found = folding(alike(4, {"c": [kernel("k", 1)]}, {"dp": [[0, 1, 2, 3]]}), star(4))
    assert found.num_classes == 1
    assert found.size.tolist() == [4]
    assert found.group_of["dp", 0].members == (0,)


def test_scripts_are_apart() -> None:
    found = folding(program({"c": [kernel("k", 1)]}, {"c": [kernel("k", 1)]}), star(2))
    assert found.rank_class.tolist() == [0, 1]


def test_a_slow_device_is_a_class_and_so_are_those_it_meets() -> None:
    """Ranks 0-1 and 2-3 are groups: 3 is slow, 2 waits for it, 0 and 1 do not notice."""
    slow = replace(UNIT, name="slow")
    machine = star(4).with_device(3, slow)
    four = alike(4, {"c": [SUM]}, {"tp": [[0, 1], [2, 3]]})
    assert folding(four, machine).rank_class.tolist() == [0, 0, 1, 2]


def test_a_slow_link_is_noticed_by_those_that_cross_it() -> None:
    machine = star(6).with_bandwidth("d5->switch", 0.5)
    six = alike(6, {"c": [SUM]}, {"tp": [[0, 1], [2, 3], [4, 5]]})
    classes = folding(six, machine).rank_class
    assert classes[:4].tolist() == [0, 0, 0, 0]
    assert 0 not in classes[4:]


def test_groups_that_cross_the_pods_are_apart_from_those_that_do_not() -> None:
    """Pods of 3: the pairs 0-1 and 4-5 stay inside, 2-3 crosses."""
    six = alike(6, {"c": [SUM]}, {"tp": [[0, 1], [2, 3], [4, 5]]})
    classes = folding(six, pods([3, 3])).rank_class.tolist()
    assert classes == [0, 0, 1, 1, 0, 0]


def test_pipeline_peers_tell_ranks_apart() -> None:
    """One script, a chain of three: only the ends of it are not alike."""
    peers = {"next": [1, 2, -1, 4, 5, -1]}
    six = alike(6, {"c": [kernel("k", 1)]}, peers=peers)
    assert folding(six, star(6)).rank_class.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_link_that_will_change_is_like_no_other() -> None:
    machine = star(4)
    four = alike(4, {"c": [SUM]}, {"tp": [[0, 1], [2, 3]]})
    marked = fold(four, machine, np.arange(4), marked_links=[machine.link_index["d3->switch"]])
    assert marked.rank_class[0] not in marked.rank_class[2:]


def test_unfolded_is_a_class_a_rank() -> None:
    four = alike(4, {"c": [SUM]}, {"tp": [[0, 1], [2, 3]]})
    found = fold(four, star(4), np.arange(4), unfolded=True)
    assert found.rank_class.tolist() == [0, 1, 2, 3]
    assert found.group_of["tp", 3].ranks.tolist() == [[2, 3]]


def test_groups_of_a_class_are_kept_together() -> None:
    four = alike(4, {"c": [SUM]}, {"tp": [[0, 1], [2, 3]]})
    assert folding(four, star(4)).group_of["tp", 0].ranks.tolist() == [[0, 1], [2, 3]]


def test_a_real_step_folds_to_its_pipeline_places() -> None:
    """64 devices on whole pods: 4 places, whatever tp and dp."""
    plan = Plan(tp=4, pp=4, dp=4, global_batch=16, seq_len=512)
    assert folding(lower(DENSE, plan), cluster("h100-fat-tree", 64)).num_classes == 4


# Every strategy, on machines that are even and on machines that are not


def lopsided(n: int) -> Cluster:
    """Pods of 16 devices on a 1:7 spine."""
    return cluster("llama3-roce", n, hosts_per_rack=1, racks_per_pod=2)


def slow_device(machine: Cluster, index: int) -> Cluster:
    device = machine.device(index)
    slow = replace(
        device,
        name="slow",
        peak={dtype: 0.7 * rate for dtype, rate in device.peak.items()},
        memory_bandwidth=0.8 * device.memory_bandwidth,
    )
    return machine.with_device(index, slow)


def slow_link(machine: Cluster, device: int) -> Cluster:
    """Every way out of a device at 0.4 of its rate."""
    return machine.with_bandwidth(np.flatnonzero(machine.links.src == device), 0.4)


def machine(name: str, n: int) -> tuple[Cluster, dict[str, object]]:
    """A cluster for n devices, and a placement where it has one."""
    order = np.random.default_rng(7).permutation(n)
    table = {
        "even": lambda: (cluster("h100-fat-tree", n), {}),
        "pods": lambda: (lopsided(n), {}),
        "slow link": lambda: (slow_link(lopsided(n), 5), {}),
        "slow device": lambda: (slow_device(lopsided(n), n - 3), {}),
        "shuffled": lambda: (lopsided(n), {"placement": order}),
        "few adapters": lambda: (cluster("h100-fat-tree", n, nics=2), {}),
    }
    return table[name]()


MACHINES = ("even", "pods", "slow link", "slow device", "shuffled", "few adapters")

PLANS = {
    "dp": {"dp": 24},
    "zero-1": {"dp": 24, "zero": 1},
    "zero-2": {"dp": 24, "zero": 2},
    "zero-3": {"dp": 24, "zero": 3},
    "zero-3 kept": {"dp": 24, "zero": 3, "reshard": False, "prefetch": 2},
    "hsdp": {"dp": 24, "zero": 3, "shard": 4},
    "tp": {"tp": 4, "dp": 6},
    "tp sp": {"tp": 8, "dp": 3, "sequence_parallel": True, "zero": 1},
    "tp overlap": {
        "tp": 4, "dp": 6, "sequence_parallel": True, "software": "megatron-core", "overlap_tp": "on",
    },
    "gpipe": {"tp": 2, "pp": 3, "dp": 4, "schedule": "gpipe"},
    "1f1b": {"tp": 2, "pp": 2, "dp": 6, "sequence_parallel": True},
    "1f1b blocking": {"tp": 4, "pp": 3, "dp": 2, "overlap_p2p": "off", "zero": 1},
    "pipeline inside": {"tp": 2, "pp": 3, "dp": 4, "order": ("tp", "cp", "pp", "dp")},
    "interleaved": {"tp": 2, "pp": 3, "dp": 4, "schedule": "interleaved", "chunks": 2, "zero": 1},
    "zb-h1": {"tp": 2, "pp": 3, "dp": 4, "schedule": "zb-h1"},
    "zb-v": {"tp": 2, "pp": 3, "dp": 4, "schedule": "zb-v", "chunks": 2, "zero": 2},
    "cp gather": {"cp": 4, "tp": 2, "dp": 3, "seq_len": 1536},
    "cp ring": {"cp": 3, "tp": 2, "dp": 4, "seq_len": 1536, "context": "ring"},
    "cp ulysses": {"cp": 4, "tp": 2, "dp": 3, "seq_len": 1536, "context": "ulysses"},
    "experts": {"tp": 2, "dp": 12, "ep": 12},
    "experts cut": {"tp": 4, "dp": 6, "ep": 4, "etp": 2, "zero": 1},
    "mixture": {
        "tp": 2, "cp": 2, "pp": 3, "dp": 2, "seq_len": 1536, "zero": 3, "shard": 2, "recompute": "full",
        "sequence_parallel": True,
    },
}  # fmt: skip


def lowered(name: str, **more: object) -> Program:
    fields = {"seq_len": 768, "global_batch": 2 * PLANS[name].get("dp", 1), **PLANS[name], **more}
    if fields.get("schedule") == "interleaved":
        fields["global_batch"] = fields["pp"] * fields["dp"]
    return lower(EXPERTS if "ep" in fields else DENSE, Plan(**fields))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("where", MACHINES)
def test_folded_is_unfolded(name: str, where: str) -> None:
    step = lowered(name)
    made, more = machine(where, step.num_ranks)
    worst, classes = apart(step, made, launch=2 * US, **more)
    assert worst < 1e-9, classes


def test_even_machines_fold() -> None:
    """The comparison means something: on whole hosts, 24 ranks are few classes."""
    for name, most in {"dp": 1, "zero-3": 1, "tp sp": 1, "hsdp": 1, "gpipe": 3, "zb-v": 3}.items():
        assert folding(lowered(name), cluster("h100-fat-tree", 24)).num_classes <= most, name


@pytest.mark.parametrize("name", ["1f1b", "tp sp"])
def test_folded_is_unfolded_while_a_link_changes(name: str) -> None:
    step = lowered(name)
    made = lopsided(24)
    changes = [LinkChange(1e-3, 5, 1e9), LinkChange(3e-3, 5, 60e9)]
    assert apart(step, made, changes=changes)[0] < 1e-9


def test_rings_that_close_over_other_rails() -> None:
    """On A100 hosts some pairs of rails share a leaf, others do not; a ring over three hosts changes rails."""
    plan = Plan(tp=4, dp=6, global_batch=12, seq_len=768, zero=1)
    assert apart(lower(DENSE, plan), cluster("a100-superpod", 24))[0] < 1e-9


def test_sixty_four_devices() -> None:
    plan = Plan(tp=4, pp=2, dp=8, global_batch=16, seq_len=512, zero=1, sequence_parallel=True)
    for made in (cluster("h100-fat-tree", 64), lopsided(64)):
        assert apart(lower(DENSE, plan), made)[0] < 1e-9


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10_000),
    sizes=st.sampled_from([(6, 6), (8, 4), (5, 7), (4, 4, 4), (9, 3)]),
    degree=st.sampled_from([2, 3, 4, 6]),
)
def test_any_groups_and_pairs_on_any_pods(seed: int, sizes: tuple[int, ...], degree: int) -> None:
    """Random groups, random pairs, random placement: kernels, collectives of every kind and messages."""
    random = np.random.default_rng(seed)
    ranks = random.permutation(12)
    half = random.permutation(12).reshape(2, 6)
    peers = np.full(12, -1)
    peers[half[0]] = half[1]
    sender = (peers >= 0).astype(int)
    kinds = random.permutation(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
    common = {
        "x": [kernel("k", 2), *(Collective(f"x{i}", k, "x", 5.0) for i, k in enumerate(kinds))],
        "y": [Collective("y", "all_reduce", "y", 7.0), kernel("l", 1), Collective("z", "all_gather", "y", 3.0)],
    }  # fmt: skip
    message = (Recv("m", "to", 4.0), Send("m", "to", 4.0))
    whole = program(
        *({**common, "m": [message[0]]}, {**common, "m": [message[1]]}),
        groups={"x": ranks.reshape(-1, degree), "y": np.arange(12).reshape(-1, 3)},
        peers={"to": peers},
    )
    whole = replace(whole, script_of_rank=sender)
    assert apart(whole, pods(sizes, uplink=1.5), placement=random.permutation(12))[0] < 1e-9


def test_folded_ranks_show_the_spans_of_their_class() -> None:
    pair = Collective("r", "all_reduce", "tp", 4.0)
    four = alike(4, {"c": [kernel("k", 1), pair]}, {"tp": [[0, 1], [2, 3]]})
    timeline = simulate(four, star(4))
    assert timeline.num_classes == 1
    assert bars(timeline, 3) == bars(timeline, 0) == [("k", 0, 1), ("r", 1, 5)]


def test_segments_carry_their_action() -> None:
    one = program({"c": (Segment(F0, (kernel("k", 1),)),)})
    assert [s.action for s in simulate(one, star(1)).spans(0)] == [F0]
