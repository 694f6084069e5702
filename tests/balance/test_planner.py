"""Plans for random clusters: no prefix is unsafe, no goal gets worse, and a planned cluster needs no plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_clusters import IDLE_NEVER, MB, cluster, clusters, goals, plain

from kpybroker.machines.balance import planner
from kpybroker.machines.balance.goals import BalanceGoals, MoveReason, Resource
from kpybroker.machines.balance.model import BalanceModel, BalanceNode, PartitionLoad
from kpybroker.machines.balance.planner import BalancePlan, plan
from kpybroker.machines.balance.search import MoveSearch

MANY = settings(max_examples=100, deadline=None)


def texts(found: BalancePlan) -> list[str]:
    return [each.text for each in found.moves]


def racks_of(model: BalanceModel, replicas: tuple[int, ...], leaving: frozenset[int]) -> set[str | None]:
    """The racks of replicas on nodes that stay."""
    nodes = [model.nodes[model.places[each]] for each in replicas]
    return {node.rack for node in nodes if node.is_alive and node.id not in leaving}


@MANY
@given(st.data())
def test_no_prefix_of_a_plan_is_unsafe(data: st.DataObject) -> None:
    model = data.draw(clusters())
    wanted = data.draw(goals(model))
    used = {node.id: node.used_bytes for node in model.nodes}
    limit = {node.id: wanted.disk_limit * node.disk_bytes for node in model.nodes}
    numbers = {(model.topics[model.topic[p]], model.number[p]): p for p in range(len(model))}
    for move in plan(model, wanted).moves:
        partition = numbers.pop((move.topic, move.partition))
        assert move.before == model.ids(model.replicas_of(partition))
        assert not model.is_held[partition]
        assert len(set(move.after)) == len(move.after) == len(move.before)
        for each in move.added:
            node = model.nodes[model.places[each]]
            assert node.is_alive
            assert not node.is_cordoned
            assert each not in wanted.leaving
            if node.disk_bytes >= 0:  # while it copies, the old replicas are still there
                used[each] += move.size_bytes
                assert used[each] <= limit[each] + 1
        for each in set(move.before) - set(move.after):
            used[each] -= move.size_bytes
        in_sync = set(model.ids(model.in_sync_of(partition)))
        assert in_sync & set(move.before)  # there is something to copy from
        assert len(in_sync & set(move.after)) + len(move.added) >= len(in_sync)
        before, after = (racks_of(model, each, wanted.leaving) for each in (move.before, move.after))
        assert len(after) >= len(before)


@MANY
@given(st.data())
def test_no_goal_gets_worse_for_one_that_comes_later(data: st.DataObject) -> None:
    model = data.draw(clusters())
    found = plan(model, data.draw(goals(model)))
    assert found.after <= found.before
    if not found.deferred:
        assert (found.after < found.before) == bool(found.moves)


@MANY
@given(st.data())
def test_a_planned_cluster_needs_no_plan(data: st.DataObject) -> None:
    model = data.draw(clusters())
    wanted = data.draw(goals(model))
    found = plan(model, wanted)
    if not found.deferred:
        assert texts(plan(model.moved(found.arrangement.replicas), wanted)) == []


@MANY
@given(st.data())
def test_a_drained_node_that_has_others_to_go_to_is_empty(data: st.DataObject) -> None:
    model = data.draw(clusters(may_be_gone=False))
    model.nodes = [each._replace(is_cordoned=False, disk_bytes=-1, used_bytes=-1) for each in model.nodes]
    model.is_held = bytearray(len(model))
    leaving = data.draw(st.sampled_from([node.id for node in model.nodes]))
    found = plan(model, BalanceGoals(only=frozenset((MoveReason.LEAVING,)), leaving=frozenset((leaving,))))
    factor = max(len(model.replicas_of(each)) for each in range(len(model)))
    if factor < len(model.nodes):
        assert found.nodes[leaving].after[Resource.REPLICAS] == 0
    assert all(each.reason is MoveReason.LEAVING for each in found.moves)


def test_the_same_cluster_has_the_same_plan() -> None:
    model = cluster(plain(5, 2), [[1, 2], [1, 2], [1, 2], [1, 2], [3, 4]], [9 * MB, 3 * MB, 5 * MB, 7 * MB, MB])
    assert texts(plan(model, IDLE_NEVER)) == texts(plan(model, IDLE_NEVER)) != []


def test_a_move_has_its_reason_in_words() -> None:
    nodes = [BalanceNode(4, "a", disk_bytes=10_000 * MB, used_bytes=9100 * MB)]
    nodes.append(BalanceNode(9, "b", disk_bytes=10_000 * MB, used_bytes=1000 * MB))
    model = BalanceModel(nodes)
    topic = model.add_topic("orders")
    model.add_partition(topic, 17, [4], load=PartitionLoad(800 * MB))
    model.add_partition(topic, 18, [9], load=PartitionLoad(800 * MB))
    found = plan(model, BalanceGoals(only=frozenset((MoveReason.FULL,))))
    assert texts(found) == ["orders-17: broker 4 → 9, 800 MB: disk of 4 at 91 %, falls to 83 %"]


def test_leaders_move_without_data_before_replicas_do() -> None:
    model = cluster(plain(2), [[1, 2]] * 6)
    found = plan(model)
    assert {each.reason for each in found.moves} == {MoveReason.LEADERS}
    assert found.moved_bytes == 0
    assert [load.after[Resource.LEADERS] for load in found.nodes] == [3, 3]
    assert texts(found)[0] == "t-0: leader 1 → 2, no bytes: leaders of 1: 6, falls to 5; its share is 3.0"


def test_replicas_in_one_rack_are_moved_to_several() -> None:
    found = plan(cluster(plain(4, 2), [[2, 4]]), BalanceGoals(only=frozenset((MoveReason.RACK,))))
    assert len({each % 2 for each in found.moves[0].after}) == 2
    assert texts(found)[0].endswith("two replicas are in rack r0")


def test_a_full_disk_gets_below_its_limit_with_the_smallest_replica_that_does_it() -> None:
    nodes = [BalanceNode(each, disk_bytes=1000 * MB, used_bytes=100 * MB) for each in (1, 2)]
    nodes[0] = nodes[0]._replace(used_bytes=900 * MB)
    model = cluster(nodes, [[1], [1], [1]], [500 * MB, 60 * MB, 300 * MB])
    found = plan(model, BalanceGoals(only=frozenset((MoveReason.FULL,))))
    assert [(each.partition, each.after) for each in found.moves] == [(1, (2,))]
    assert found.after.full_bytes == 0


def test_a_new_node_gets_its_share_and_no_more() -> None:
    model = cluster(plain(5), [[each % 4 + 1] for each in range(40)], [MB] * 40)
    found = plan(model, IDLE_NEVER)
    assert 7.2 <= found.nodes[4].after[Resource.REPLICAS] <= 8.8
    assert found.moved_bytes <= 8 * MB
    assert all("broker 5 is new" in each for each in texts(found))


def test_replicas_of_a_broker_that_is_gone_move_only_where_that_is_wanted() -> None:
    nodes = [*plain(3), BalanceNode(4, is_alive=False)]
    model = cluster(nodes, [[4, 1], [4, 2]], [MB, MB])
    assert not plan(model, BalanceGoals(only=frozenset(MoveReason) - {MoveReason.GONE})).moves
    found = plan(model, BalanceGoals(only=frozenset((MoveReason.GONE,))))
    assert [(each.before, 4 in each.after) for each in found.moves] == [((4, 1), False), ((4, 2), False)]
    assert all(each.text.endswith("broker 4 is gone") for each in found.moves)


def test_an_idle_cluster_needs_no_move_for_its_disks() -> None:
    nodes = [BalanceNode(each, disk_bytes=1000 * MB, used_bytes=0) for each in (1, 2)]
    model = cluster(nodes, [[1], [2], [1], [2]], [100 * MB, MB, 50 * MB, MB])
    assert not plan(model).moves
    assert plan(model, IDLE_NEVER).moves


def test_traffic_moves_with_the_partition_that_has_the_least_bytes_for_it() -> None:
    model = BalanceModel(plain(2))
    topic = model.add_topic("t")
    for number, size in enumerate((500, 5, 500, 500)):
        model.add_partition(topic, number, [1], load=PartitionLoad(size * MB, 10.0 * MB))
    for number in range(4, 8):
        model.add_partition(topic, number, [2], load=PartitionLoad(400 * MB, 5.0 * MB))
    found = plan(model, BalanceGoals(idle_rate=1.0))
    assert found.moves[0].partition == 1
    assert "incoming traffic of 1: 40 MB/s, falls to 30 MB/s" in found.moves[0].text


def test_a_hot_partition_is_named() -> None:
    model = BalanceModel(plain(3))
    topic = model.add_topic("clicks")
    for number, rate in enumerate((60, 5, 5)):
        model.add_partition(topic, number, [number + 1], load=PartitionLoad(0, rate * float(MB)))
    (hot,) = [each for each in plan(model).hot if each.resource is Resource.IN]
    assert (hot.name, hot.node, round(hot.of_node, 2)) == ("clicks-0", 1, 1.0)


def test_a_partition_that_just_fits_a_broker_is_not_hot() -> None:
    model = BalanceModel(plain(2))
    topic = model.add_topic("clicks")
    for number, rate in enumerate((10, 10)):
        model.add_partition(topic, number, [number + 1], load=PartitionLoad(0, rate * float(MB)))
    for tolerance, hot in ((0.0, []), (-0.01, ["clicks-0", "clicks-1"])):
        assert [each.name for each in plan(model, BalanceGoals(tolerance)).hot] == hot
    model = BalanceModel(plain(3))
    topic = model.add_topic("clicks")
    for number, rate in enumerate((30, 20, 10)):
        model.add_partition(topic, number, [number + 1], load=PartitionLoad(0, rate * float(MB)))
    assert [each.name for each in plan(model, BalanceGoals(0.0)).hot] == ["clicks-0"], "the ceiling is 20 MB/s"


def test_a_search_ends_with_the_round_that_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[bool] = []
    one_round = planner._round

    def counted(search: MoveSearch, goals: BalanceGoals) -> bool:
        rounds.append(one_round(search, goals))
        return rounds[-1]

    monkeypatch.setattr(planner, "_round", counted)
    plan(cluster(plain(2), [[1, 2], [2, 1]]))
    assert rounds == [False, False], "one in each way to search"
    rounds.clear()
    plan(cluster(plain(2), [[1, 2]] * 6))
    assert rounds == [True, False] * 2 + [False, False]


def test_a_move_for_which_there_is_never_room_is_deferred() -> None:
    full = [BalanceNode(each, f"r{each}", disk_bytes=100 * MB, used_bytes=85 * MB) for each in (1, 2)]
    found = plan(cluster(full, [[1], [2]], [40 * MB, 40 * MB]), BalanceGoals(leaving=frozenset((1,))))
    assert not found.moves
    assert found.after.leaving == 1


def test_moves_that_only_deferred_ones_needed_are_not_made() -> None:
    """Two disks would exchange large replicas, and neither has room for both: the small ones stay where they are."""
    disks = ((1, 1200, 1000), (2, 1000, 620), (3, 1000, 650))
    nodes = [BalanceNode(each, disk_bytes=disk * MB, used_bytes=used * MB) for each, disk, used in disks]
    replicas = [[1], [1], [2], [2], [2], [3], [3], [1, 2], [3, 1], [2, 3]]
    model = cluster(nodes, replicas, [each * MB for each in (500, 480, 300, 290, 10, 320, 310, 5, 7, 6)])
    found = plan(model, BalanceGoals(0.05, idle_disk=0.0, only=frozenset((MoveReason.DISK,))))
    assert {each.partition for each in found.deferred} == {1, 2}
    assert "disk of 1 at 85 %, falls to 45 %" in found.deferred[0].text, "once there is room for it"
    disk = Resource.DISK
    assert all(load.after[disk] <= max(load.before[disk], load.ceilings[disk]) for load in found.nodes)
    assert found.after == plan(model.moved(found.arrangement.replicas), BalanceGoals(0.05, idle_disk=0.0)).before


@pytest.mark.parametrize("nodes", [0, 1])
def test_a_cluster_with_nothing_to_choose_needs_no_plan(nodes: int) -> None:
    assert not plan(cluster(plain(nodes), [[1]] * nodes)).moves
