"""The reasons of single partitions: each goal now and after a plan, and the obstacles where one stays above a share."""

from kpybroker.machines.balance.goals import BalanceGoals, MoveReason
from kpybroker.machines.balance.model import BalanceModel, BalanceNode, PartitionLoad
from kpybroker.machines.balance.planner import BalancePlan, plan
from kpybroker.machines.balance.why import PlacedPartition, partition_of, whereabouts

MB = 1_000_000


def cluster(*racks: str, disk: int = 1_000 * MB) -> BalanceModel:
    """Brokers from 1 on, each in a rack, with an empty disk."""
    return BalanceModel(
        [BalanceNode(number, rack, disk_bytes=disk, used_bytes=0) for number, rack in enumerate(racks, 1)]
    )


def of(found: BalancePlan, number: int = 0) -> PlacedPartition:
    partition = partition_of(found, "orders", number)
    assert partition is not None
    return whereabouts(found, partition)


def goals_of(found: PlacedPartition) -> dict[str, tuple[str, str]]:
    return {each.name: (each.now, each.after) for each in found.goals}


def skewed(*, is_held: bool = False) -> BalancePlan:
    """Two brokers in a rack of which the first has everything."""
    model = cluster("a", "a")
    topic = model.add_topic("orders")
    for number in range(4):
        model.add_partition(topic, number, [1], load=PartitionLoad(200 * MB, is_held=is_held and not number))
    return plan(model)


def test_a_partition_that_moves_has_its_reason_and_the_brokers_before_and_after() -> None:
    found = skewed()
    (moved, *_) = found.moves
    answer = of(found, moved.partition)
    assert answer.decision == moved.text
    assert answer.obstacles == []
    goals = goals_of(answer)
    assert goals["limits of disks"] == ("1: 80 % of at most 85 %", "2: 40 % of at most 85 %")
    assert goals["bytes on disks"] == ("1: 800 MB of at most 440 MB", "2: 400 MB of at most 440 MB")
    assert goals["replicas"] == ("1: 4 of at most 2", "2: 2 of at most 2")
    assert goals["racks"] == ("on 1 of 1 that it could be on", "on 1 of 1 that it could be on")
    assert goals["new brokers"] == ("2 lacks 100 % of its share", "2 has its share")
    assert goals["incoming traffic"] == ("it takes none", "it takes none")


def test_a_partition_that_stays_says_that_no_goal_asks_for_another_place() -> None:
    found = skewed()
    (stays, *_) = {0, 1, 2, 3} - {each.partition for each in found.moves}
    answer = of(found, stays)
    assert answer.decision == f"orders-{stays} stays on 1: no goal asks for another place"
    assert goals_of(answer)["bytes on disks"] == ("1: 800 MB of at most 440 MB", "1: 400 MB of at most 440 MB")


def test_a_partition_that_is_left_alone_says_so() -> None:
    answer = of(skewed(is_held=True))
    assert answer.decision == "orders-0 is left alone on 1: it moves already, or lacks a replica in sync"
    assert goals_of(answer)["moves and replicas out of sync"] == ("it is left alone", "it is left alone")
    assert answer.obstacles == []


def test_a_hot_partition_says_that_no_broker_would_be_better_off() -> None:
    model = cluster("a", "a", "a")
    topic = model.add_topic("orders")
    model.add_partition(topic, 0, [1], load=PartitionLoad(700 * MB))
    for number in (1, 2):
        model.add_partition(topic, number, [number + 1], load=PartitionLoad(10 * MB))
    answer = of(plan(model))
    assert answer.decision == "orders-0 stays on 1"
    assert "Broker 1 stays above its share of bytes on disks: to 2, 3: it would be no better off." in answer.obstacles


def test_racks_and_replicas_that_are_there_already_are_obstacles() -> None:
    model = cluster("a", "b", "b")
    topic = model.add_topic("orders")
    model.add_partition(topic, 0, [1, 2], load=PartitionLoad(500 * MB))
    model.add_partition(topic, 1, [3], load=PartitionLoad(1 * MB))
    found = plan(model, BalanceGoals(tolerance=0.0, only=frozenset({MoveReason.RACK, MoveReason.DISK})))
    (line,) = [each for each in of(found).obstacles if "Broker 2" in each]
    assert line.startswith("Broker 2 stays above its share of bytes on disks: ")
    assert "to 1: it has a replica already" in line
    (line,) = [each for each in of(found).obstacles if "Broker 1" in each and "bytes" in each] or [""]
    assert not line or "to 3: its rack has a replica already" in line


def test_a_partition_on_too_few_racks_says_which_disk_is_full() -> None:
    model = BalanceModel(
        [
            BalanceNode(1, "a", disk_bytes=1_000 * MB, used_bytes=0),
            BalanceNode(2, "a", disk_bytes=1_000 * MB, used_bytes=0),
            BalanceNode(3, "b", disk_bytes=100 * MB, used_bytes=0),
        ]
    )
    model.add_partition(model.add_topic("orders"), 0, [1, 2], load=PartitionLoad(300 * MB))
    answer = of(plan(model))
    assert goals_of(answer)["racks"][1] == "on 1 of 2 that it could be on"
    expected = "It stays on fewer racks than it could be on: to 3: its disk would be above the limit."
    assert answer.obstacles[0] == expected
    assert answer.decision == "orders-0 stays on 1, 2"


def test_goals_that_a_plan_does_not_serve_are_named() -> None:
    model = cluster("a", "a")
    topic = model.add_topic("orders")
    for number in range(4):
        model.add_partition(topic, number, [1], load=PartitionLoad(200 * MB))
    found = plan(model, BalanceGoals(only=frozenset({MoveReason.RACK})))
    text = "Broker 1 stays above its share of bytes on disks, which this plan does not serve."
    assert text in of(found).obstacles


def test_replicas_of_a_broker_that_is_gone_are_kept_because_most_come_back() -> None:
    model = cluster("a", "a")
    model.add_partition(model.add_topic("orders"), 0, [1, 9], in_sync=[1], load=PartitionLoad(1))
    found = plan(model, BalanceGoals(only=frozenset(MoveReason) - {MoveReason.GONE}))
    assert goals_of(of(found))["brokers that are gone"][0] == "9, which keep their replicas: most come back"


def test_many_brokers_with_the_same_obstacle_are_counted() -> None:
    model = cluster(*("a" * 6))
    topic = model.add_topic("orders")
    model.add_partition(topic, 0, [1], load=PartitionLoad(700 * MB))
    for number in range(1, 6):
        model.add_partition(topic, number, [number + 1], load=PartitionLoad(10 * MB))
    assert any("to 2, 3, 4 and 2 more: it would be no better off." in each for each in of(plan(model)).obstacles)


def test_a_partition_that_does_not_exist_is_none() -> None:
    assert partition_of(skewed(), "orders", 4) is None
    assert partition_of(skewed(), "order", 0) is None
