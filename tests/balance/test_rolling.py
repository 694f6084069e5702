"""Nodes that may stop together: partitions keep min.insync.replicas, the controllers a majority; one rack."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_clusters import cluster, clusters, plain

from kpybroker.machines.balance.model import BalanceModel, BalanceNode
from kpybroker.machines.balance.rolling import ControllersState, objections, roll_plan

THREE = ControllersState(frozenset((1, 2, 3)), frozenset((1, 2, 3)), 1)


def striped(nodes: int, racks: int = 3, factor: int = 3, needed: int = 2) -> BalanceModel:
    """A cluster in which every partition has a replica in each of ``factor`` racks."""
    replicas = [[(first + each) % nodes + 1 for each in range(factor)] for first in range(nodes * 2)]
    return cluster(plain(nodes, racks), replicas, min_in_sync=needed)


def is_safe(model: BalanceModel, quorum: ControllersState, stopped: tuple[int, ...]) -> bool:
    """Whether all is well without these nodes, where all others that live are in sync."""
    for partition in range(len(model)):
        needed = max(1, model.min_in_sync[model.topic[partition]])
        replicas = model.ids(model.replicas_of(partition))
        alive = [each for each in replicas if model.nodes[model.places[each]].is_alive]
        left = [each for each in alive if each not in stopped]
        if len(replicas) > needed and len(left) < len(alive) and len(left) < needed:
            return False
    return len(quorum.voters) < 3 or len(quorum.voters - set(stopped)) > len(quorum.voters) // 2


def test_a_rack_stops_together() -> None:
    found = roll_plan(striped(9), ControllersState())
    assert sorted(found.sets) == [(1, 4, 7), (2, 5, 8), (3, 6, 9)]
    assert not found.waiting


def test_without_racks_nodes_stop_one_at_a_time() -> None:
    assert roll_plan(striped(4, racks=0), ControllersState()).sets == [(1,), (2,), (3,), (4,)]


def test_controllers_keep_their_majority_and_the_leader_stops_last() -> None:
    model = cluster([BalanceNode(each, "a") for each in (1, 2, 3, 4, 5)], [[4, 5]], min_in_sync=1)
    found = roll_plan(model, THREE)
    assert found.sets[-1] == (1,)
    assert all(len({1, 2, 3} & set(each)) <= 1 for each in found.sets)


def test_a_controller_that_is_no_broker_has_its_turn_too() -> None:
    quorum = ControllersState(frozenset((7, 8, 9)), frozenset((7, 8, 9)), 9)
    found = roll_plan(striped(3), quorum)
    assert sorted(node for each in found.sets for node in each) == [1, 2, 3, 7, 8, 9]


def test_a_node_waits_while_a_replica_of_its_partition_is_not_in_sync() -> None:
    model = BalanceModel(plain(3, 3))
    topic = model.add_topic("t", 2)
    model.add_partition(topic, 0, [1, 2, 3], in_sync=[1, 2])
    found = roll_plan(model, ControllersState())
    reason = "t-0 would have fewer replicas in sync than min.insync.replicas"
    assert found.waiting == [(1, reason), (2, reason)]
    assert found.sets == [(3,)]


def test_a_controller_waits_while_another_lags() -> None:
    found = roll_plan(striped(3), THREE._replace(caught_up=frozenset((1, 2))))
    assert found.waiting == [
        (1, "the controllers would lose their majority"),
        (2, "the controllers would lose their majority"),
    ]


def test_a_quorum_of_one_has_none_to_spare_and_delays_no_node() -> None:
    one = ControllersState(frozenset((1,)), frozenset((1,)), 1)
    assert roll_plan(cluster(plain(2, 2), []), one).sets == [(2,), (1,)]


def test_partitions_without_a_replica_to_spare_are_named_and_delay_no_node() -> None:
    found = roll_plan(cluster(plain(2, 2), [[1], [2]]), ControllersState())
    assert sorted(found.sets) == [(1,), (2,)]
    assert found.unspared == ["t-0", "t-1"]


def test_of_nodes_that_wait_those_of_the_first_one_s_rack_may_stop() -> None:
    reasons = objections(cluster(plain(9, 3), []), ControllersState(), [1, 2, 4])
    assert reasons == {1: None, 2: "nodes of another rack stop", 4: None}


@pytest.mark.parametrize(
    ("partitions", "text"), [(1, "t-0 would"), (2, "t-0 and 1 more would"), (3, "t-0 and 2 more would")]
)
def test_the_partitions_that_a_stop_would_hurt_are_counted(partitions: int, text: str) -> None:
    (reason,) = objections(cluster(plain(2), [[1, 2]] * partitions), ControllersState(), [2], away=[1]).values()
    assert reason is not None
    assert reason.startswith(text)


def test_a_node_that_was_allowed_to_stop_counts_as_away() -> None:
    (reason,) = objections(striped(9), ControllersState(), [2], away=[1]).values()
    assert reason is not None
    assert "would have fewer replicas in sync" in reason


@settings(max_examples=100, deadline=None)
@given(model=clusters(), voters=st.frozensets(st.integers(0, 7), max_size=5))
def test_no_set_is_unsafe_and_every_node_that_may_stop_has_one(model: BalanceModel, voters: frozenset[int]) -> None:
    quorum = ControllersState(voters, voters, min(voters, default=-1))
    found = roll_plan(model, quorum)
    for each in found.sets:
        assert is_safe(model, quorum, each), each
        racks = {model.nodes[model.places[node]].rack for node in each if node in model.places}
        assert len(each) == 1 or len(racks) == 1
    planned = [node for each in found.sets for node in each] + [node for node, _ in found.waiting]
    alive = {node.id for node in model.nodes if node.is_alive} | voters
    assert sorted(planned) == sorted(alive)


@pytest.mark.parametrize("nodes", [9, 30, 90])
def test_the_number_of_sets_does_not_grow_with_the_cluster(nodes: int) -> None:
    assert len(roll_plan(striped(nodes), ControllersState()).sets) == 3
