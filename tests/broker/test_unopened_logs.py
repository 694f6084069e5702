"""A request to many partitions that nobody has used makes their logs a few at a time, and is answered as ever."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running_node import RunningNode

from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.raw_client import RawClient

MANY = 150


class CountingDisk(RealDisk):
    """The real disk, which notes in which turn of the loop each log's directory is made."""

    def __init__(self) -> None:
        super().__init__(Descriptors(512))
        self.turn = 0
        self.made: Counter[int] = Counter()

    def make_directory(self, path: str) -> None:
        self.made[self.turn] += 1
        super().make_directory(path)

    def count_turns(self) -> None:
        self.turn += 1
        asyncio.get_running_loop().call_soon(self.count_turns)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
def node(tmp_path: Path, disk: CountingDisk) -> Iterator[RunningNode]:
    running = RunningNode({"log.dirs": str(tmp_path)}, disk)
    yield running
    running.stop()


@pytest.fixture
def client(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node.port) as client:
        yield client


def without_background(node: RunningNode) -> None:
    """Only requests make logs from now on."""
    node.node.broker.replicas._new_logs.add = lambda _replica: None  # type: ignore[method-assign]


def create(client: RawClient, name: str, partitions: int = MANY) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 7)
    assert answer.topics[0].error_code == error_codes.NONE


def produce_to(acks: int = -1, *topics: tuple[str, range]) -> ProduceRequest:
    batch = build_batch([Record(timestamp=1_000, value=b"x")])
    data = [
        TopicProduceData(
            name=name, partition_data=[PartitionProduceData(index=index, records=batch) for index in partitions]
        )
        for name, partitions in topics
    ]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data)


def produce(client: RawClient) -> Any:
    answered = client.call(produce_to(-1, ("t", range(MANY))), 9).responses[0].partition_responses
    return [(each.index, each.error_code) for each in answered]


def list_offsets(client: RawClient) -> Any:
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(MANY)]
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name="t", partitions=wanted)]
    )
    return [(each.partition_index, each.error_code) for each in client.call(request, 7).topics[0].partitions]


def fetch(client: RawClient, version: int = 12, session_epoch: int = -1) -> Any:
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=100) for index in range(MANY)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, session_epoch=session_epoch, topics=[FetchTopic(topic="t", partitions=wanted)]
    )
    answered = client.call(request, version).responses[0].partitions
    return [(each.partition_index, each.error_code) for each in answered]


def fetch_in_a_session(client: RawClient) -> Any:
    return fetch(client, session_epoch=0)


def end_of_epoch(client: RawClient) -> Any:
    wanted = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(MANY)]
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=wanted)])
    return [(each.partition, each.error_code) for each in client.call(request, 4).topics[0].partitions]


def delete_records(client: RawClient) -> Any:
    wanted = [DeleteRecordsPartition(partition_index=index, offset=0) for index in range(MANY)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=wanted)], timeout_ms=10_000)
    return [(each.partition_index, each.error_code) for each in client.call(request, 2).topics[0].partitions]


@pytest.mark.parametrize("ask", [produce, list_offsets, fetch, fetch_in_a_session, end_of_epoch, delete_records])
def test_logs_are_made_in_many_turns_of_the_loop(
    client: RawClient, node: RunningNode, disk: CountingDisk, ask: Callable[[RawClient], Any]
) -> None:
    without_background(node)
    create(client, "t")
    node.call(disk.count_turns)
    disk.made.clear()
    assert ask(client) == [(index, error_codes.NONE) for index in range(MANY)]
    assert sum(disk.made.values()) == MANY
    assert max(disk.made.values()) < MANY / 3


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_produce_to_old_and_new_logs_and_to_none_is_answered_in_its_order(
    client: RawClient, node: RunningNode, acks: int
) -> None:
    without_background(node)
    create(client, "old", 40)
    client.call(produce_to(acks, ("old", range(40))), 9)
    create(client, "new", 40)
    request = produce_to(acks, ("new", range(50)), ("nowhere", range(30)), ("old", range(40)))
    unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    expected = [
        ("new", [(index, error_codes.NONE if index < 40 else unknown, 0 if index < 40 else -1) for index in range(50)]),
        ("nowhere", [(index, unknown, -1) for index in range(30)]),
        ("old", [(index, error_codes.NONE, 1) for index in range(40)]),
    ]
    assert notified(client.call(request, 9)) == expected


def notified(answer: Any) -> Any:
    return [
        (topic.name, [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses])
        for topic in answer.responses
    ]


def test_requests_behind_one_that_makes_logs_are_answered_behind_it(client: RawClient, node: RunningNode) -> None:
    without_background(node)
    create(client, "t")
    sent = [client.send(produce_to(-1, ("t", range(MANY))), 9) for _ in range(3)]
    for number, correlation_id in enumerate(sent):
        answer = client.receive(0, 9)
        assert client.received_id == correlation_id
        assert {each.base_offset for each in answer.responses[0].partition_responses} == {number}


def test_the_last_batch_of_a_partition_named_twice_is_written_even_if_its_log_is_made(
    client: RawClient, node: RunningNode
) -> None:
    without_background(node)
    create(client, "t")
    request = produce_to(-1, ("t", range(MANY)))
    request.topic_data[0].partition_data.append(request.topic_data[0].partition_data[0])
    answered = client.call(request, 9).responses[0].partition_responses
    assert len(answered) == MANY
    assert {(each.error_code, each.base_offset) for each in answered} == {(error_codes.NONE, 0)}


def test_without_acknowledgement_nothing_is_answered_unless_by_the_end(client: RawClient, node: RunningNode) -> None:
    without_background(node)
    create(client, "t")
    client.send(produce_to(0, ("t", range(MANY))), 9)
    assert list_offsets(client) == [(index, error_codes.NONE) for index in range(MANY)]
    create(client, "u")
    client.send(produce_to(0, ("u", range(MANY + 1))), 9)
    assert client.is_closed()


def test_a_client_that_disconnects_while_logs_are_made_does_no_harm(client: RawClient, node: RunningNode) -> None:
    without_background(node)
    create(client, "t")
    with RawClient(node.port) as other:
        other.send(produce_to(-1, ("t", range(MANY))), 9)
    assert [code for _, code in produce(client)] == [error_codes.NONE] * MANY
