"""Compiling: every op gets its seconds once, and what it shares."""

from dataclasses import replace

import numpy as np
import pytest

from sim.compile import compile_program
from sim.fold import fold
from sim.kernels import kernel_time, steady
from sim.kernels.shapes import Gemm
from sim.program import Allocate, Collective, Compute, Program, Recv, Send
from sim.steps import BANDWIDTH, COLLECTIVE, COMPUTE, MEMORY, SEND, SMS, Compiled
from tests.sim.hand_made import UNIT, alike, kernel, pods, program, star
from topologies import cluster


def compiled(step: Program, machine, **more) -> Compiled:
    device_of = np.arange(step.num_ranks)
    return compile_program(step, fold(step, machine, device_of), machine, device_of, **more)


def steps(found: Compiled) -> list:
    return [step for stream in found.streams for _, steps in stream.segments for step in steps]


def ring(seconds, axis="pair", **more):
    return Collective("r", "send_recv", axis, float(seconds), **more)


def test_a_kernel_has_its_seconds_and_what_slows_it() -> None:
    machine = cluster("h100-fat-tree", 1)
    product = Gemm(4096, 4096, 4096)
    one = program({"c": [Compute("p", product), kernel("m", 1e9), Allocate("x", 1.0)]})
    first, second, third = steps(compiled(one, machine, launch=2e-6))
    assert (first.code, first.kind) == (COMPUTE, SMS)
    assert first.alone == kernel_time(product, steady(machine.device(0)))
    assert (second.code, second.kind) == (COMPUTE, BANDWIDTH)
    assert third.code == MEMORY
    assert first.launch == 2e-6


def test_each_device_kind_has_its_own_seconds() -> None:
    slow = replace(UNIT, name="slow", memory_bandwidth=UNIT.memory_bandwidth / 2)
    machine = star(2).with_device(1, slow)
    found = compiled(alike(2, {"c": [kernel("k", 3)]}), machine)
    assert [step.alone for step in steps(found)] == [3, 6]


def test_an_op_used_again_is_one_step() -> None:
    op = kernel("k", 1)
    found = steps(compiled(program({"c": [op, op, op]}), star(1)))
    assert len({id(step) for step in found}) == 1


def test_a_collective_alone_on_its_links_is_quick() -> None:
    two = alike(2, {"c": [kernel("k", 1), ring(3)]}, {"pair": [[0, 1]]})
    (step,) = [s for s in steps(compiled(two, star(2))) if s.code == COLLECTIVE]
    assert step.quick
    assert step.alone == 3


@pytest.mark.parametrize(
    "streams",
    [
        {"x": [ring(1)], "y": [ring(1)]},
        {"x": [ring(1)], "y": [ring(1, "other")]},
    ],
)
def test_collectives_that_may_meet_on_a_link_are_not_quick(streams) -> None:
    two = alike(2, streams, {"pair": [[0, 1]], "other": [[0, 1]]})
    found = [s for s in steps(compiled(two, star(2))) if s.code == COLLECTIVE]
    assert not any(step.quick for step in found)


def test_a_link_that_will_change_leaves_nothing_quick() -> None:
    two = alike(2, {"c": [ring(3)]}, {"pair": [[0, 1]]})
    (step,) = steps(compiled(two, star(2), keep_links=[0]))
    assert not step.quick


def test_members_of_several_classes_meet() -> None:
    two = program({"c": [ring(3)]}, {"c": [ring(3)]}, groups={"pair": [[0, 1]]})
    for step in steps(compiled(two, star(2))):
        assert (step.parties, step.classes, step.quick) == (2, (0, 1), False)


def test_semaphores_are_numbered_a_class() -> None:
    one = program(
        {"a": [kernel("k", 1, signals=("x",))], "b": [kernel("l", 1, waits=("x", "y"))]},
        semaphores={"y": 2},
    )
    found = compiled(one, star(1))
    assert found.semaphores == [(("x", "y"), (0, 2))]
    first, second = steps(found)
    assert (first.signals, second.waits) == ((0,), (0, 1))


def test_all_groups_of_a_class_share_their_links() -> None:
    """Two pairs over one uplink: as one class, 2 bytes cross it for each of theirs; 1 byte/s apiece alone."""
    four = alike(4, {"c": [ring(3)]}, {"pair": [[0, 2], [1, 3]]})
    (step,) = steps(compiled(four, pods([2, 2])))
    (leg,) = step.legs
    assert leg.ceiling == 0.5
    assert step.alone == 6
    assert leg.phase.own == 1.0


def test_a_message_is_priced_at_its_sender() -> None:
    two = program({"s": [Send("s", "x", 3.0)]}, {"r": [Recv("s", "x", 3.0)]}, peers={"x": [1, -1]})
    send, receive = steps(compiled(two, star(2)))
    assert (send.code, send.alone, len(send.legs)) == (SEND, 3, 1)
    assert receive.legs == ()
    assert send.key == receive.key


def test_contention_is_a_handful_of_resources() -> None:
    """1,024 devices, every one with a link: what can bind is told in few numbers."""
    machine = cluster("h100-fat-tree", 1024)
    groups = {"tp": np.arange(1024).reshape(-1, 8), "dp": np.arange(1024).reshape(-1, 8).T}
    ops = [Collective("a", "all_gather", "tp", 1e9), Collective("b", "all_reduce", "dp", 1e9)]
    found = compiled(alike(1024, {"x": ops[:1], "y": ops[1:]}, groups), machine)
    assert len(found.streams) == 2
    assert len(found.capacity) <= 8
