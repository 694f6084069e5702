"""A znode that exists already: the controller's own, because an answer was lost, or that of another reign."""

from collections.abc import Callable
from typing import Any

import pytest
from reigning import Asker, Candidate, Cluster

from kpybroker.machines.zookeeper.client.operations import OPEN_ACL, Create, Delete, Get, Multi, Operation, Set
from kpybroker.machines.zookeeper.controller.batch import LeaderAndIsr
from kpybroker.machines.zookeeper.controller.election import Won, elect
from kpybroker.machines.zookeeper.controller.steps import ControllerMoved, Steps
from kpybroker.machines.zookeeper.migration import takeover
from kpybroker.machines.zookeeper.tree import controller, paths
from kpybroker.machines.zookeeper.tree.controller import ElectedController, MigrationState
from kpybroker.machines.zookeeper.tree.requests import TopicPartition
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch

STATE = paths.partition_state("t", 0)
T0 = TopicPartition("t", 0)


def creates(operation: Operation, path: str) -> bool:
    parts = operation.operations if isinstance(operation, Multi) else (operation,)
    return any(isinstance(each, Create) and each.path == path for each in parts)


def meddled(asker: Asker, path: str, meddle: Callable[[Operation], Any]) -> Callable[[Operation], Any]:
    """Ask ZooKeeper; before the first creation of a path, something else happens."""
    ask, left = asker.ask, [meddle]

    def with_meddling(operation: Operation) -> Any:
        if left and creates(operation, path):
            left.pop()(operation)
        return ask(operation)

    return with_meddling


def done(steps: Steps[Any], ask: Callable[[Operation], Any]) -> Any:
    try:
        operations = next(steps)
        while True:
            operations = steps.send([ask(each) for each in operations])
    except StopIteration as stop:
        return stop.value


def elected(meddle: Callable[[Cluster, Asker, Operation], Any]) -> Won:
    """The election of broker 1, the second one of its cluster."""
    cluster = Cluster()
    asker = Asker(cluster.server)
    cluster.admin.ask(Create(paths.CONTROLLER_EPOCH, b"1"))
    ask = meddled(asker, paths.CONTROLLER, lambda operation: meddle(cluster, asker, operation))
    won: Won = done(elect(1, 1_000, lambda _path: OPEN_ACL), ask)
    assert controller.decode_epoch(cluster.admin.ask(Get(paths.CONTROLLER_EPOCH)).data) == won.epoch
    return won


def test_an_election_whose_answer_was_lost_was_won() -> None:
    assert elected(lambda _cluster, asker, operation: asker.ask(operation)) == Won(2, 1)


@pytest.mark.parametrize(
    ("broker_id", "epoch"),
    [(2, b"2"), (1, None), (1, b"3"), (2, None)],
    ids=["another broker", "an earlier reign of its own", "a later reign of its own", "another broker's earlier reign"],
)
def test_an_election_that_another_reign_won_is_lost(broker_id: int, epoch: bytes | None) -> None:
    def meddle(cluster: Cluster, _asker: Asker, _operation: Operation) -> None:
        cluster.admin.ask(Create(paths.CONTROLLER, ElectedController(broker_id, 1_000).encode()))
        if epoch is not None:
            cluster.admin.ask(Set(paths.CONTROLLER_EPOCH, epoch))

    with pytest.raises(ControllerMoved):
        elected(meddle)


def new_topic(meddle: Callable[[Cluster, Candidate, Operation], Any]) -> tuple[Cluster, Candidate]:
    """A controller in its first reign, which starts a topic with the replicas 1 and 2."""
    cluster = Cluster()
    candidate = cluster.candidate(3)
    asker = candidate.session
    meddling = meddled(asker, STATE, lambda operation: meddle(cluster, candidate, operation))
    ask = asker.ask

    def first(operation: Operation) -> Any:
        asker.ask = ask  # type: ignore[method-assign]
        try:
            return meddling(operation)
        finally:
            asker.ask = first  # type: ignore[method-assign]

    asker.ask = first  # type: ignore[method-assign]
    cluster.create_topic("t", [[1, 2]])
    cluster.settle()
    return cluster, candidate


def starts_of(cluster: Cluster) -> list[LeaderIsrAndControllerEpoch]:
    """The states of the partition that broker 1 got as those of a new one."""
    orders = [each for each in cluster.brokers[1].requests if isinstance(each, LeaderAndIsr)]
    found = [each.partitions[T0] for each in orders if T0 in each.partitions]
    return [each.leadership.state for each in found if each.is_new]


def test_a_partition_whose_creation_was_answered_too_late_starts() -> None:
    cluster, candidate = new_topic(lambda _cluster, candidate, operation: candidate.session.ask(operation))
    assert starts_of(cluster) == [LeaderIsrAndControllerEpoch(1, 0, (1, 2), controller_epoch=1)]
    assert candidate.log == []


@pytest.mark.parametrize(
    "state",
    [
        LeaderIsrAndControllerEpoch(1, 0, (1, 2), controller_epoch=7),
        LeaderIsrAndControllerEpoch(1, 0, (1, 2), controller_epoch=0),
        LeaderIsrAndControllerEpoch(1, 0, (1,), controller_epoch=1),
        LeaderIsrAndControllerEpoch(2, 0, (1, 2), controller_epoch=1),
        LeaderIsrAndControllerEpoch(1, 4, (1, 2), controller_epoch=1),
    ],
    ids=["later reign", "earlier reign", "other ISR", "other leader", "other leader epoch"],
)
def test_a_partition_that_another_reign_started_is_not_new(state: LeaderIsrAndControllerEpoch) -> None:
    cluster, candidate = new_topic(lambda cluster, _candidate, _operation: cluster.write(STATE, state.encode()))
    assert starts_of(cluster) == []
    assert cluster.state("t") == state
    assert any("is not new" in line for line in candidate.log)


def test_a_partition_that_was_changed_after_it_was_created_is_not_new() -> None:
    """Two writes: its version says so, although the content is the same."""

    def meddle(cluster: Cluster, _candidate: Candidate, _operation: Operation) -> None:
        content = LeaderIsrAndControllerEpoch(1, 0, (1, 2), controller_epoch=1).encode()
        cluster.write(STATE, content)
        cluster.admin.ask(Set(STATE, content))

    assert starts_of(new_topic(meddle)[0]) == []


class Takeover:
    """A KRaft controller at the znodes of a migration."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.asker = Asker(self.cluster.server)
        self.progress = done(takeover.begin(lambda _path: OPEN_ACL), self.asker.ask)

    def claim(self, node_id: int, kraft_epoch: int, ask: Callable[[Operation], Any] | None = None) -> Any:
        steps = takeover.claim(node_id, kraft_epoch, self.progress, 1_000, lambda _path: OPEN_ACL)
        claimed = done(steps, ask or self.asker.ask)
        if claimed is not None:
            self.progress = claimed[1]
        return claimed

    def holder(self) -> tuple[int, int]:
        found = ElectedController.decode(self.asker.ask(Get(paths.CONTROLLER)).data)
        return found.broker_id, found.kraft_epoch


def test_a_kraft_controller_recognises_its_own_reign_and_no_other() -> None:
    there = Takeover()
    first = there.claim(3000, 5)
    assert there.holder() == (3000, 5)
    assert first[0].epoch == 6, "larger than what a KRaft controller may have written"
    assert there.claim(3000, 5) == first, "the answer was lost"
    again = there.claim(3000, 6)
    assert again[0].epoch == 7
    assert there.holder() == (3000, 6)
    other = there.claim(3001, 7)
    assert other[0].epoch == 8
    assert there.holder() == (3001, 7)
    assert there.claim(3000, 6) is None, "a controller of a later epoch has it"
    assert there.holder() == (3001, 7)


@pytest.mark.parametrize("mark", [(3001, 5), (3000, 4), (3000, 6)])
def test_a_kraft_controller_whose_two_znodes_differ_claims_again(mark: tuple[int, int]) -> None:
    there = Takeover()
    first = there.claim(3000, 5)
    there.progress = takeover.MigrationProgress(MigrationState(-1, mark[0], -1, mark[1]), first[1].version)
    assert there.claim(3000, max(5, mark[1]))[0].epoch == first[0].epoch + 1


def test_a_kraft_controller_that_another_one_overtakes_has_no_claim() -> None:
    there = Takeover()

    def meddle(_operation: Operation) -> None:
        there.cluster.write(paths.CONTROLLER, ElectedController(1, 1_000).encode())

    assert there.claim(3000, 5, meddled(there.asker, paths.CONTROLLER, meddle)) is None
    assert there.holder() == (1, controller.NO_KRAFT_EPOCH)
    there.asker.ask(Delete(paths.CONTROLLER))
    assert there.claim(3000, 5) is not None
