"""A full Fetch for many partitions is read in steps, and is answered as one for few."""

from collections.abc import Iterator

import pytest
from running_node import RunningNode, start

from kpywire import api, error_codes
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch, read_records
from support.raw_client import RawClient
from support.waiting import eventually

TOPIC = "wide"
PARTITIONS = 300
VERSION = 12
REMEMBERED, SESSION, FORGOTTEN = "remembered", "session", "forgotten"
"""Without a session, read again; in a new session; without one, and not remembered, as it names a partition twice."""
KINDS = (REMEMBERED, SESSION, FORGOTTEN)
LONG_MS = 20_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    running = start(tmp_path_factory.mktemp("data"))
    with RawClient(running.port) as client:
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 7)
    yield running
    running.stop()


@pytest.fixture
def client(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node.port) as client:
        yield client


@pytest.fixture
def ends(client: RawClient) -> list[int]:
    """The end of each partition after one more record in every seventh."""
    for index in range(0, PARTITIONS, 7):
        produce(client, index, b"of %d" % index)
    answer = fetch(client, [0] * PARTITIONS, REMEMBERED)
    return [partition.high_watermark for partition in answer.responses[0].partitions]


def produce(client: RawClient, index: int, value: bytes) -> int:
    batch = build_batch([Record(timestamp=1_000, value=value)])
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=index, records=batch)])
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
    offset: int = answer.responses[0].partition_responses[0].base_offset
    return offset


def request(offsets: list[int], kind: str, max_wait_ms: int = 0) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1_000)
        for index, offset in enumerate(offsets)
    ]
    if kind == FORGOTTEN:
        partitions.append(partitions[-1])
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_epoch=0 if kind == SESSION else -1,
        topics=[FetchTopic(topic=TOPIC, partitions=partitions)],
    )


def fetch(client: RawClient, offsets: list[int], kind: str, max_wait_ms: int = 0) -> FetchResponse:
    answer: FetchResponse = client.call(request(offsets, kind, max_wait_ms), VERSION)
    assert answer.error_code == error_codes.NONE
    return answer


def values(answer: FetchResponse) -> dict[int, list[bytes | None]]:
    return {
        partition.partition_index: [record.value for record in read_records(partition.records)]
        for topic in answer.responses
        for partition in topic.partitions
        if partition.records
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_partition_is_answered_in_the_order_of_the_request(client: RawClient, ends: list[int], kind: str) -> None:
    answer = fetch(client, [0] * PARTITIONS, kind)
    (topic,) = answer.responses
    assert [partition.partition_index for partition in topic.partitions] == list(range(PARTITIONS))
    assert values(answer) == {index: [b"of %d" % index] * ends[index] for index in range(0, PARTITIONS, 7)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_that_has_everything_waits_for_more(
    node: RunningNode, client: RawClient, ends: list[int], kind: str
) -> None:
    client.send(request(ends, kind, max_wait_ms=LONG_MS), VERSION)
    with RawClient(node.port) as producer:
        produce(producer, 123, b"news")
    answer = client.receive(api.FETCH, VERSION)
    assert values(answer) == {123: [b"news"]}


@pytest.mark.parametrize("kind", KINDS)
def test_news_that_come_while_it_is_read_are_not_missed(
    node: RunningNode, client: RawClient, ends: list[int], kind: str
) -> None:
    """In either order: the record is in the answer, and nobody waits for another one."""
    with RawClient(node.port) as producer:
        for number in range(30):
            client.send(request(ends, kind, max_wait_ms=LONG_MS), VERSION)
            produce(producer, number, b"news")
            assert values(client.receive(api.FETCH, VERSION)) == {number: [b"news"]}
            ends[number] += 1


def test_a_reader_that_leaves_in_the_middle_leaves_nothing_behind(node: RunningNode, ends: list[int]) -> None:
    for _ in range(20):
        with RawClient(node.port) as client:
            client.send(request(ends, FORGOTTEN, max_wait_ms=LONG_MS), VERSION)
    broker = node.node.broker
    assert broker is not None
    replicas = list(broker.replicas.topics[TOPIC].replicas.values())
    left = "nobody watches for a request that is over"
    eventually(
        lambda: all(entry.session.lasts for each in replicas for entry in (*each.watchers, *each.notified)), left
    )
