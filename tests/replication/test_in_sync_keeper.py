"""Proposals on their way to the controller: many in one request, one request at a time, again after an error."""

from collections.abc import Callable
from typing import Any

import pytest
from replica_world import TOPIC_ID, World

from kpybroker.hosts.replicas.in_sync import RETRY_MS, InSyncKeeper
from kpybroker.machines.partition.in_sync import IsrChange
from kpybroker.machines.partition.leader import PartitionLeader
from kpywire import error_codes
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord

LAG_MS = 2_000.0
PARTITIONS = 3


class Asking:
    """Node 1 leads, its followers are gone, and the test is the controller."""

    def __init__(self) -> None:
        self.world = World(2, partitions=PARTITIONS)
        self.world.settle()
        self.world.nodes[2].kill()
        self.node = self.world.nodes[1]
        self.node.in_sync.stop()
        for index in range(PARTITIONS):
            self.node.produce(index=index)
        self.asked: list[tuple[AlterPartitionRequest, Callable[[Any], object]]] = []
        self.epoch = 7
        self.keeper = InSyncKeeper(
            self.node.scheduler,
            lambda request, reply: self.asked.append((request, reply)),
            self.node.replicas,
            1,
            lambda: self.epoch,
        )
        self.node.replicas.rules.lag_max_ms = LAG_MS
        self.node.in_sync = self.keeper
        self.keeper.start()

    def until_asked(self) -> AlterPartitionRequest:
        self.world.run(int(LAG_MS * 2))
        return self.asked[-1][0]

    def answer(self, codes: dict[int, int], *, error_code: int = error_codes.NONE) -> None:
        """Answer the last request, partition by partition."""
        request, reply = self.asked[-1]
        wanted = {each.partition_index: each for topic in request.topics for each in topic.partitions}
        answers = [
            AlterPartitionResponsePartitionData(
                partition_index=index,
                error_code=code,
                leader_id=1,
                leader_epoch=0,
                isr=[each.broker_id for each in wanted[index].new_isr_with_epochs],
                partition_epoch=1,
            )
            for index, code in codes.items()
        ]
        topics = [AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=answers)]
        reply(AlterPartitionResponse(throttle_time_ms=0, error_code=error_code, topics=topics))

    def isr(self, index: int) -> tuple[int, ...]:
        return self.node.replica(index).led().isr


def partitions(request: AlterPartitionRequest) -> list[int]:
    return [each.partition_index for topic in request.topics for each in topic.partitions]


def test_all_that_is_found_goes_in_one_request_and_the_next_waits_for_its_answer() -> None:
    asking = Asking()
    request = asking.until_asked()
    assert (request.broker_id, request.broker_epoch, partitions(request)) == (1, 7, [0, 1, 2])
    (member,) = request.topics[0].partitions[0].new_isr_with_epochs
    assert (member.broker_id, member.broker_epoch) == (1, 7)
    asking.until_asked()
    assert len(asking.asked) == 1
    asking.answer(dict.fromkeys(range(PARTITIONS), error_codes.NONE))
    assert [asking.isr(index) for index in range(PARTITIONS)] == [(1,)] * PARTITIONS
    assert asking.node.high_watermark() == 1
    assert asking.keeper.shrinks == PARTITIONS
    asking.until_asked()
    assert len(asking.asked) == 1


@pytest.mark.parametrize("code", [error_codes.STALE_BROKER_EPOCH, error_codes.REQUEST_TIMED_OUT])
def test_a_request_that_failed_is_asked_again_with_the_epoch_of_now(code: int) -> None:
    asking = Asking()
    asking.until_asked()
    asking.epoch = 8
    asking.answer({}, error_code=code)
    assert len(asking.asked) == 1
    asking.world.run(RETRY_MS)
    request = asking.asked[-1][0]
    assert (len(asking.asked), request.broker_epoch, partitions(request)) == (2, 8, [0, 1, 2])
    assert request.topics[0].partitions[0].new_isr_with_epochs[0].broker_epoch == 8


def test_only_unanswered_or_failed_isr_changes_are_sent_again() -> None:
    asking = Asking()
    asking.until_asked()
    asking.answer({0: error_codes.NONE, 1: error_codes.UNKNOWN_SERVER_ERROR})
    asking.world.run(RETRY_MS)
    assert partitions(asking.asked[-1][0]) == [1, 2]
    asking.answer({1: error_codes.INVALID_UPDATE_VERSION, 2: error_codes.NONE})
    asking.world.run(10 * RETRY_MS)
    assert len(asking.asked) == 2
    assert (asking.keeper.shrinks, asking.keeper.failures) == (2, 2)
    assert asking.isr(1) == (1, 2)
    assert asking.node.replica(1).led().in_sync.pending is not None, "only the metadata can tell what holds"


def test_an_isr_change_that_the_metadata_already_have_is_not_sent_again() -> None:
    asking = Asking()
    asking.until_asked()
    for index in range(PARTITIONS):
        asking.world.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, isr=[1]))
    asking.answer({}, error_code=error_codes.REQUEST_TIMED_OUT)
    asking.world.run(10 * RETRY_MS)
    assert len(asking.asked) == 1
    assert [asking.isr(index) for index in range(PARTITIONS)] == [(1,)] * PARTITIONS


def test_whose_leadership_is_over_asks_no_more() -> None:
    asking = Asking()
    asking.until_asked()
    asking.world.lead(2)
    asking.answer({}, error_code=error_codes.REQUEST_TIMED_OUT)
    asking.world.run(RETRY_MS)
    assert partitions(asking.asked[-1][0]) == [1, 2]


def test_an_end_is_an_end() -> None:
    asking = Asking()
    asking.until_asked()
    asking.keeper.stop()
    asking.answer({0: error_codes.NONE})
    asking.until_asked()
    assert (len(asking.asked), asking.isr(0)) == (1, (1, 2))


def test_a_failure_of_one_partition_does_not_affect_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking()
    shrink = PartitionLeader.shrink_in_sync

    def broken(self: PartitionLeader, now_ms: float) -> IsrChange | None:
        if self.log.partition == 0:
            raise RuntimeError("something nobody thought of")
        return shrink(self, now_ms)

    monkeypatch.setattr(PartitionLeader, "shrink_in_sync", broken)
    assert partitions(asking.until_asked()) == [1, 2]


def test_a_partition_with_one_replica_proposes_no_isr_change() -> None:
    world = World(1)
    world.nodes[1].produce()
    world.settle(40_000)
    assert (world.nodes[1].in_sync.shrinks, world.nodes[1].high_watermark()) == (0, 1)
    assert not any(way.asks == 1 for way in world.ways)
