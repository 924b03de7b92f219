"""Ranks and axes: tensor parallelism varies fastest, pipeline slowest, unless the plan says otherwise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads.data_parallel import Sharding
from workloads.mesh import coordinates, expert_groups, groups, neighbours
from workloads.plan import Plan


def plan(**fields) -> Plan:
    return Plan(**{"global_batch": 840, "seq_len": 512, **fields})


CUBE = plan(tp=2, cp=1, dp=2, pp=3)


def test_coordinates_of_a_small_mesh() -> None:
    where = coordinates(CUBE)
    assert where["tp"].tolist() == [0, 1] * 6
    assert where["dp"].tolist() == [0, 0, 1, 1] * 3
    assert where["pp"].tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_groups_of_each_axis() -> None:
    assert groups(CUBE, ("tp",)).tolist() == [[i, i + 1] for i in range(0, 12, 2)]
    assert groups(CUBE, ("dp",)).tolist() == [[a, a + 2] for a in (0, 1, 4, 5, 8, 9)]
    assert groups(CUBE, ("pp",)).tolist() == [[a, a + 4, a + 8] for a in range(4)]


def test_groups_of_two_axes_vary_the_first_fastest() -> None:
    made = plan(tp=2, cp=2, dp=2)
    assert groups(made, ("cp", "dp")).tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert groups(made, ("tp", "pp")).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_another_order() -> None:
    made = plan(tp=2, dp=2, pp=2, order=("tp", "cp", "pp", "dp"))
    assert coordinates(made)["pp"].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert groups(made, ("dp",)).tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_neighbours_go_around_the_pipeline() -> None:
    assert neighbours(CUBE, 1).tolist() == [*range(4, 12), *range(4)]
    assert neighbours(CUBE, -1).tolist() == [*range(8, 12), *range(8)]


def test_experts_use_neighbouring_ranks() -> None:
    """ep x etp = 4 of 8 ranks of a pipeline place: etp fastest, then ep, then copies."""
    made = plan(tp=2, dp=4, ep=2, etp=2)
    found = expert_groups(made)
    assert found["etp"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert found["ep"].tolist() == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert found["edp"].tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_experts_stay_inside_a_pipeline_place() -> None:
    made = plan(dp=4, pp=2, ep=4)
    assert expert_groups(made)["ep"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_shards_and_replicas() -> None:
    """HSDP over 6 ranks in shards of 2: shards are neighbours, replicas hold the same shard."""
    found = Sharding(plan(dp=6, zero=3, shard=2)).groups()
    assert found["dp"].tolist() == [[0, 1, 2, 3, 4, 5]]
    assert found["dp.shard"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found["dp.replica"].tolist() == [[0, 2, 4], [1, 3, 5]]


@settings(max_examples=40, deadline=None)
@given(st.tuples(*[st.integers(1, 4)] * 4), st.permutations(["tp", "cp", "dp", "pp"]))
def test_every_axis_splits_all_ranks(degrees, order) -> None:
    tp, cp, dp, pp = degrees
    made = plan(tp=tp, cp=cp, dp=dp, pp=pp, order=tuple(order), global_batch=12 * dp)
    where = coordinates(made)
    for axis in order:
        found = groups(made, (axis,))
        assert sorted(found.ravel().tolist()) == list(range(made.num_devices))
        assert found.shape[1] == getattr(made, axis)
        for other in order:
            along = where[other][found]
            if other == axis:
                assert (along == np.arange(along.shape[1])).all()
            else:
                assert (along == along[:, :1]).all()
    assert (where["pp"][neighbours(made, 1)] == (where["pp"] + 1) % pp).all()


@pytest.mark.parametrize(("ep", "etp"), [(1, 2), (2, 1), (2, 2), (4, 2), (8, 3)])
def test_expert_groups_split_all_ranks(ep, etp) -> None:
    made = plan(tp=2, cp=2, dp=6, pp=2, ep=ep, etp=etp)
    for axis, degree in {"ep": ep, "etp": etp, "edp": 24 // (ep * etp)}.items():
        found = expert_groups(made)[axis]
        assert sorted(found.ravel().tolist()) == list(range(48))
        assert found.shape[1] == degree
