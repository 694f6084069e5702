"""A client that reads many partitions without a session gets the same answer as one that the broker sees first."""

import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from running_node import RunningNode, start

from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.waiting import becomes

TOPICS = ("a", "b", "c")
PARTITIONS = 40
VERSION = 12


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = start(tmp_path_factory.mktemp("data"))
    yield running
    running.stop()


@pytest.fixture
def client(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node.port) as client:
        for topic in TOPICS:
            create(client, topic)
        yield client
        for topic in TOPICS:
            delete(client, topic)


def create(client: RawClient, name: str) -> None:
    soon = CreatableTopicConfig(name="file.delete.delay.ms", value="0")
    topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[soon])
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 7)
    assert answer.topics[0].error_code in (error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS)


def delete(client: RawClient, name: str) -> None:
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000), 6)


def produce(client: RawClient, topic: str, index: int, value: bytes) -> None:
    batch = build_batch([Record(timestamp=1_000, value=value)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
    client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)


def delete_records(client: RawClient, topic: str, index: int) -> None:
    one = DeleteRecordsPartition(partition_index=index, offset=-1)
    topics = [DeleteRecordsTopic(name=topic, partitions=[one])]
    client.call(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)


def fetch(offsets: dict[tuple[str, int], int], *, max_wait_ms: int = 0, max_bytes: int = 1 << 20) -> FetchRequest:
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, index), offset in offsets.items():
        one = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
        topics.setdefault(topic, []).append(one)
    named = [FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=named)


def notified(response: FetchResponse) -> list[Any]:
    return [
        (topic.topic, answer.partition_index, answer.error_code, answer.high_watermark, answer.last_stable_offset,
         answer.log_start_offset, answer.aborted_transactions, bytes(answer.records or b""))
        for topic in response.responses
        for answer in topic.partitions
    ]  # fmt: skip


def everything(offset: int = 0) -> dict[tuple[str, int], int]:
    return {(topic, index): offset for topic in TOPICS for index in range(PARTITIONS)}


@pytest.mark.parametrize("seed", range(4))
def test_remembered_and_new_readers_get_the_same_records(client: RawClient, node: RunningNode, seed: int) -> None:
    rng = random.Random(seed)
    offsets = everything()
    for _ in range(60):
        for _ in range(rng.randrange(3)):
            happen(client, rng)
        place = rng.choice(list(offsets))
        if rng.random() < 0.5:
            offsets[place] = rng.randrange(4)
        if rng.random() < 0.2:
            offsets.pop(place)
        if rng.random() < 0.2:
            offsets[rng.choice(TOPICS), rng.randrange(PARTITIONS + 2)] = 0
        if rng.random() < 0.3:
            mixed = list(offsets.items())
            rng.shuffle(mixed)
            offsets = dict(mixed)
        request = fetch(offsets, max_bytes=rng.choice([100, 1 << 20]))
        with RawClient(node.port) as newcomer:
            expected = notified(newcomer.call(request, VERSION))
        assert notified(client.call(request, VERSION)) == expected
        assert notified(client.call(request, VERSION)) == expected


def happen(client: RawClient, rng: random.Random) -> None:
    topic, index = rng.choice(TOPICS), rng.randrange(PARTITIONS)
    what = rng.random()
    if what < 0.6:
        produce(client, topic, index, b"x" * rng.randrange(200))
    elif what < 0.9:
        delete_records(client, topic, index)
    elif what < 0.95:
        delete(client, topic)
    else:
        create(client, topic)


def test_a_remembered_reader_is_woken_by_any_of_its_partitions(client: RawClient, node: RunningNode) -> None:
    request = fetch(everything(), max_wait_ms=20_000)
    with RawClient(node.port) as reader:
        for number in range(3):
            reader.send(request, VERSION)
            produce(client, "b", 30 + number, b"woken")
            answered = notified(reader.receive(1, VERSION))
            assert len(answered) == len(TOPICS) * PARTITIONS
            assert [(each[0], each[1]) for each in answered if each[-1]] == [("b", 30 + number)]
            request.topics[1].partitions[30 + number].fetch_offset = 1


def test_a_partition_named_twice_is_read_from_where_it_was_named_last(client: RawClient) -> None:
    produce(client, "a", 3, b"there")
    request = fetch(everything(1))
    again = FetchPartition(partition=3, fetch_offset=0, partition_max_bytes=1 << 20)
    client.call(request, VERSION)
    request.topics[0].partitions.append(again)
    answered = notified(client.call(request, VERSION))
    assert len(answered) == len(TOPICS) * PARTITIONS
    assert next(each for each in answered if each[:2] == ("a", 3))[-1]


@pytest.mark.usefixtures("client")
def test_partitions_are_not_watched_for_a_disconnected_client(node: RunningNode) -> None:
    def watched() -> int:
        return sum(len(replica.watchers) + len(replica.notified) for replica in node.node.broker.replicas)

    with RawClient(node.port) as reader:
        reader.call(fetch(everything()), VERSION)
        assert node.call(watched) == len(TOPICS) * PARTITIONS
        reader.call(fetch({("a", 0): 0}), VERSION)
        assert node.call(watched) == 0
        reader.call(fetch(everything()), VERSION)
        reader.send(fetch(everything(), max_wait_ms=20_000), VERSION)
        reader.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset at the end
    becomes(lambda: node.call(watched), 0)
    room = node.call(lambda: node.node.broker.fetch_sessions.remembered_budget.left)
    assert room == 100_000


def test_records_that_found_no_room_come_to_a_session_that_goes_on(client: RawClient) -> None:
    for index in range(3):
        produce(client, "a", index, b"x" * 1000)
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1500) for index in range(3)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1500, session_epoch=0, topics=[FetchTopic(topic="a", partitions=wanted)]
    )
    got: list[int] = []
    for epoch in range(1, 6):
        answer = client.call(request, VERSION)
        moved = []
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.records:
                    got.append(partition.partition_index)
                    moved.append(
                        FetchPartition(partition=partition.partition_index, fetch_offset=1, partition_max_bytes=1500)
                    )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1500,
            session_id=answer.session_id,
            session_epoch=epoch,
            topics=[FetchTopic(topic="a", partitions=moved)] if moved else [],
        )
    assert sorted(got) == [0, 1, 2]
