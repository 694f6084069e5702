"""A plan explained: each goal before and after it, and the partitions that it leaves alone."""

import re

from kpybroker.cli.balance import explanation
from kpybroker.machines.balance.explaining import explained, left_alone
from kpybroker.machines.balance.goals import BalanceGoals
from kpybroker.machines.balance.model import BalanceModel, BalanceNode, PartitionLoad
from kpybroker.machines.balance.planner import BalancePlan, plan


def skewed() -> BalancePlan:
    """Two racks, of which one has everything, a drained broker, and a partition that moves already."""
    nodes = [(1, "a"), (2, "a"), (3, "b"), (4, "b")]
    model = BalanceModel([BalanceNode(each, rack, disk_bytes=1000, used_bytes=0) for each, rack in nodes])
    topic = model.add_topic("orders", 1)
    for number in range(4):
        model.add_partition(topic, number, [1, 2], load=PartitionLoad(100))
    model.add_partition(topic, 4, [1, 2], load=PartitionLoad(100, is_held=True))
    return plan(model, BalanceGoals(leaving=frozenset([2])))


def test_each_goal_is_shown_before_and_after() -> None:
    goals = {each.name: (each.before, each.after) for each in explained(skewed())}
    assert goals["replicas on drained brokers"] == ("5", "1")
    assert goals["partitions on too few racks"] == ("5", "1")
    assert goals["replicas on brokers that are gone"] == ("0", "0")
    assert list(goals)[-1] == "replicas: the worst broker above its share"


def test_the_table_of_goals_has_each_in_its_column() -> None:
    table = next(explanation(skewed())).splitlines()
    rows = [re.split(r"  +", line.strip()) for line in table]
    assert rows[0] == ["GOAL", "BEFORE", "AFTER"]
    assert rows[2] == ["replicas on drained brokers", "5", "1"]


def test_partitions_that_stay_as_they_are_are_named() -> None:
    assert left_alone(skewed()) == ["orders-4"]
    assert list(explanation(skewed()))[-1].endswith("in sync: orders-4")
