"""The election of a controller step by step: what it does after each answer of ZooKeeper."""

from collections.abc import Sequence
from typing import Any

import pytest
from migrations import open_acl

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Create, Exists, Get, Multi, OperationFailed, Set, Stat, Znode
from kpybroker.machines.zookeeper.controller.election import Won, current_controller, elect
from kpybroker.machines.zookeeper.controller.steps import ControllerMoved, Steps, UnexpectedAnswer
from kpybroker.machines.zookeeper.tree import controller, paths

ABSENT = OperationFailed(error_codes.NO_NODE)
THERE = OperationFailed(error_codes.NODE_EXISTS)
CHANGED = OperationFailed(error_codes.BAD_VERSION)
DENIED = OperationFailed(error_codes.NO_AUTH)


def stat(version: int) -> Stat:
    return Stat(*[0] * 4, version, *[0] * 6)


def epoch(number: int, version: int = 7) -> Znode:
    return Znode(controller.encode_epoch(number), stat(version))


def elected(broker_id: int) -> Znode:
    return Znode(controller.ElectedController(broker_id, 5).encode(), stat(0))


def played(steps: Steps[Any], *answers: Sequence[Any]) -> tuple[Any, list[Sequence[Any]]]:
    """The result, and the operations that were asked for."""
    asked = [next(steps)]
    for number, answer in enumerate(answers, 1):
        try:
            asked.append(steps.send(answer))
        except StopIteration as end:
            assert number == len(answers)
            return end.value, asked
    raise AssertionError(f"it goes on with {asked[-1]}")


def test_the_winner_creates_the_znode_and_raises_the_epoch_at_once() -> None:
    won, asked = played(elect(3, 5, open_acl), [epoch(4)], [[paths.CONTROLLER, stat(8)]])
    assert won == Won(5, 8)
    assert asked[0] == [Get(paths.CONTROLLER_EPOCH)]
    create = Create(paths.CONTROLLER, elected(3).data, open_acl(""), is_ephemeral=True)
    assert asked[1] == [Multi((create, Set(paths.CONTROLLER_EPOCH, controller.encode_epoch(5), 7)))]


@pytest.mark.parametrize("created", [paths.CONTROLLER_EPOCH, THERE], ids=["by this broker", "by another one"])
def test_the_epoch_of_a_new_cluster_is_created_and_read(created: Any) -> None:
    won, asked = played(elect(3, 5, open_acl), [ABSENT], [created], [epoch(0, 0)], [[paths.CONTROLLER, stat(1)]])
    assert won == Won(1, 1)
    assert asked[1] == [Create(paths.CONTROLLER_EPOCH, controller.encode_epoch(0), open_acl(""))]


def test_an_epoch_that_may_not_be_created_ends_the_election() -> None:
    with pytest.raises(UnexpectedAnswer):
        played(elect(3, 5, open_acl), [ABSENT], [DENIED])


@pytest.mark.parametrize("answer", [THERE, CHANGED], ids=["there is one", "another epoch"])
def test_an_election_that_was_won_before_the_answer_was_lost_is_won(answer: OperationFailed) -> None:
    won, asked = played(elect(3, 5, open_acl), [epoch(4)], [answer], [elected(3), epoch(5, 9)])
    assert won == Won(5, 9)
    assert asked[2] == [Get(paths.CONTROLLER), Get(paths.CONTROLLER_EPOCH)]


@pytest.mark.parametrize(
    "found",
    [[elected(2), epoch(5)], [elected(3), epoch(6)], [elected(2), epoch(6)], [ABSENT, epoch(5)], [elected(3), ABSENT]],
)
def test_an_election_that_another_broker_won_is_lost(found: list[Any]) -> None:
    with pytest.raises(ControllerMoved):
        played(elect(3, 5, open_acl), [epoch(4)], [THERE], found)


def test_an_election_that_is_refused_otherwise_is_neither_won_nor_lost() -> None:
    with pytest.raises(UnexpectedAnswer):
        played(elect(3, 5, open_acl), [epoch(4)], [DENIED])


def test_the_controller_is_watched_where_it_is_and_where_there_is_none() -> None:
    found, asked = played(current_controller(), [stat(0), elected(2)])
    assert found == controller.ElectedController(2, 5)
    assert asked == [[Exists(paths.CONTROLLER, is_watched=True), Get(paths.CONTROLLER)]]
    assert played(current_controller(), [ABSENT, ABSENT])[0] is None
