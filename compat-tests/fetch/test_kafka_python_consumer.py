"""kafka-python's consumer with assigned partitions: where it starts, how it moves, what it gets at the edges."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError

from conftest import NewTopic
from support.clients import KafkaPython, Record, Sending
from support.waiting import eventually

NOON_MS = 1_600_000_000_000
# One for every protocol generation that a 4.x broker still serves.
API_VERSIONS = [(0, 11), (1, 0), (2, 0), (2, 1), (2, 3), (2, 5), (2, 8), (3, 3), (4, 0)]


@pytest.fixture
def python(bootstrap_servers: str) -> KafkaPython:
    return KafkaPython(bootstrap_servers)


@pytest.fixture
def consumer(python: KafkaPython) -> Iterator[Callable[..., Any]]:
    """Opens consumers assigned to partition 0 of a topic, or to ``partitions`` of it; closes them at the end."""
    opened: list[Any] = []

    def open_on(topic: str, partitions: int = 1, **settings: Any) -> Any:
        opened.append(python.consumer(**settings))
        opened[-1].assign([TopicPartition(topic, number) for number in range(partitions)])
        return opened[-1]

    yield open_on
    for one in opened:
        one.close(autocommit=False)


def fill(python: KafkaPython, topic: str, count: int, partition: int = 0, size: int = 1) -> None:
    """Records whose value is their number, in batches of a few, one millisecond apart from ``NOON_MS`` on."""
    records = [
        Record(str(number).encode().rjust(size, b"0"), timestamp_ms=NOON_MS + number, partition=partition)
        for number in range(count)
    ]
    python.produce(topic, records, Sending(linger_ms=5, batch_bytes=300))


def take(consumer: Any, count: int) -> list[int]:
    """The offsets of the next ``count`` records."""
    offsets: list[int] = []

    def enough() -> bool:
        for records in consumer.poll(timeout_ms=500, max_records=count - len(offsets)).values():
            offsets.extend(record.offset for record in records)
        return len(offsets) >= count

    eventually(enough, f"{count} records")
    return offsets


def test_seek_forward_and_rewind(python: KafkaPython, topic: str, consumer: Callable[..., Any]) -> None:
    fill(python, topic, 100)
    reader, partition = consumer(topic), TopicPartition(topic, 0)
    reader.seek(partition, 60)
    assert take(reader, 5) == [60, 61, 62, 63, 64]
    reader.seek(partition, 10)
    assert take(reader, 3) == [10, 11, 12]
    assert reader.position(partition) == 13
    reader.seek(partition, 98)
    assert take(reader, 2) == [98, 99]


def test_seek_to_beginning_and_end(python: KafkaPython, topic: str, consumer: Callable[..., Any]) -> None:
    fill(python, topic, 20)
    reader, partition = consumer(topic), TopicPartition(topic, 0)
    reader.seek_to_end(partition)
    assert reader.position(partition) == 20
    reader.seek_to_beginning(partition)
    assert reader.position(partition) == 0
    assert take(reader, 20) == list(range(20))


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 10)])
def test_a_consumer_without_a_position_follows_auto_offset_reset(
    python: KafkaPython, topic: str, consumer: Callable[..., Any], reset: str, first: int
) -> None:
    fill(python, topic, 10)
    reader = consumer(topic, auto_offset_reset=reset)
    assert reader.position(TopicPartition(topic, 0)) == first
    fill(python, topic, 2)
    assert take(reader, 12 - first) == list(range(first, 12))


def test_a_waiting_consumer_gets_what_is_produced_later(
    python: KafkaPython, topic: str, consumer: Callable[..., Any]
) -> None:
    reader = consumer(topic, auto_offset_reset="earliest", fetch_max_wait_ms=10_000)
    assert reader.poll(timeout_ms=300) == {}
    producing = threading.Thread(target=fill, args=(python, topic, 3))
    producing.start()
    assert take(reader, 3) == [0, 1, 2]
    producing.join()


def test_a_consumer_that_asks_for_more_than_there_is_gets_what_there_is(
    python: KafkaPython, topic: str, consumer: Callable[..., Any]
) -> None:
    fill(python, topic, 3)
    reader = consumer(topic, auto_offset_reset="earliest", fetch_min_bytes=10_000_000, fetch_max_wait_ms=300)
    assert take(reader, 3) == [0, 1, 2]


def test_paused_partitions_give_nothing_until_resumed(
    python: KafkaPython, new_topic: NewTopic, consumer: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=2)
    for partition in range(2):
        fill(python, topic, 5, partition)
    reader, (first, second) = (
        consumer(topic, 2, auto_offset_reset="earliest"),
        (TopicPartition(topic, n) for n in (0, 1)),
    )
    reader.pause(first)
    assert reader.paused() == {first}
    found: set[TopicPartition] = set()

    def read_the_other() -> bool:
        found.update(reader.poll(timeout_ms=200))
        return bool(reader.position(second) == 5)

    eventually(read_the_other, "the records of the other partition")
    assert found == {second}
    reader.resume(first)
    assert take(reader, 5) == [0, 1, 2, 3, 4]


def test_poll_returns_no_more_records_than_asked(python: KafkaPython, topic: str, consumer: Callable[..., Any]) -> None:
    fill(python, topic, 50)
    reader = consumer(topic, auto_offset_reset="earliest", max_poll_records=7)
    sizes: list[int] = []

    def all_read() -> bool:
        sizes.extend(len(got) for got in reader.poll(timeout_ms=500).values())
        return sum(sizes) == 50

    eventually(all_read, "50 records")
    assert max(sizes) == 7


def test_iterating_ends_when_nothing_comes_for_a_while(
    python: KafkaPython, topic: str, consumer: Callable[..., Any]
) -> None:
    fill(python, topic, 30)
    reader = consumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=500)
    assert [record.offset for record in reader] == list(range(30))
    fill(python, topic, 2)
    assert [record.offset for record in reader] == [30, 31]


@pytest.mark.parametrize("sessions", [True, False])
def test_records_larger_than_the_fetch_limits_still_arrive(
    python: KafkaPython, new_topic: NewTopic, consumer: Callable[..., Any], sessions: bool
) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        fill(python, topic, 10, partition, size=5_000)
    reader = consumer(
        topic,
        3,
        auto_offset_reset="earliest",
        fetch_max_bytes=2_000,
        max_partition_fetch_bytes=1_000,
        enable_incremental_fetch_sessions=sessions,
    )
    assert sorted(take(reader, 30)) == sorted(list(range(10)) * 3)


def test_a_position_below_the_log_follows_the_reset_policy(
    python: KafkaPython, topic: str, consumer: Callable[..., Any], bootstrap_servers: str
) -> None:
    fill(python, topic, 30)
    partition = TopicPartition(topic, 0)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.delete_records({partition: 12})
    admin.close()
    strict = consumer(topic, auto_offset_reset="none")
    strict.seek(partition, 3)
    with pytest.raises(OffsetOutOfRangeError):
        take(strict, 1)
    lenient = consumer(topic, auto_offset_reset="earliest")
    lenient.seek(partition, 3)
    assert take(lenient, 2) == [12, 13]
    lenient.seek(partition, 31)
    assert take(lenient, 1) == [12]


def test_offsets_by_time(python: KafkaPython, new_topic: NewTopic, consumer: Callable[..., Any]) -> None:
    topic = new_topic(partitions=2)
    fill(python, topic, 50, 0)
    fill(python, topic, 10, 1)
    reader, (first, second) = consumer(topic, 2), (TopicPartition(topic, number) for number in (0, 1))
    answers = reader.offsets_for_times({first: NOON_MS + 20, second: NOON_MS + 20})
    assert (answers[first].offset, answers[first].timestamp) == (20, NOON_MS + 20)
    assert answers[second] is None
    answers = reader.offsets_for_times({first: 0, second: NOON_MS + 9})
    assert [answers[first].offset, answers[second].offset] == [0, 9]


def test_offsets_by_time_when_timestamps_are_out_of_order(python: KafkaPython, topic: str) -> None:
    stamps = [100, 50, 300, 200, 300, 10]
    for stamp in stamps:
        python.produce(topic, [Record(b"v", timestamp_ms=NOON_MS + stamp)])
    expected = {0: 0, 60: 0, 100: 0, 101: 2, 250: 2, 300: 2, 301: None}
    assert {at: python.offset_for_time(topic, NOON_MS + at) for at in expected} == expected


def test_beginning_and_end_offsets_follow_the_log(python: KafkaPython, topic: str, bootstrap_servers: str) -> None:
    assert (python.beginning_offsets(topic), python.end_offsets(topic)) == ([0], [0])
    fill(python, topic, 9)
    assert (python.beginning_offsets(topic), python.end_offsets(topic)) == ([0], [9])
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.delete_records({TopicPartition(topic, 0): 4})
    admin.close()
    assert (python.beginning_offsets(topic), python.end_offsets(topic)) == ([4], [9])


def test_the_high_watermark_comes_with_the_records(
    python: KafkaPython, topic: str, consumer: Callable[..., Any]
) -> None:
    fill(python, topic, 15)
    reader = consumer(topic, auto_offset_reset="earliest")
    take(reader, 1)
    assert reader.highwater(TopicPartition(topic, 0)) == 15


def test_read_committed_sees_records_that_belong_to_no_transaction(
    python: KafkaPython, topic: str, consumer: Callable[..., Any]
) -> None:
    fill(python, topic, 8)
    reader = consumer(topic, auto_offset_reset="earliest", isolation_level="read_committed")
    assert take(reader, 8) == list(range(8))


@pytest.mark.parametrize("version", API_VERSIONS, ids=lambda version: ".".join(map(str, version)))
def test_clients_of_every_protocol_generation_write_and_read(
    python: KafkaPython, topic: str, consumer: Callable[..., Any], version: tuple[int, ...]
) -> None:
    records = [Record(str(n).encode(), b"k", (("h", b"v"),), NOON_MS + n) for n in range(10)]
    for codec in ("none", "lz4"):
        python.produce(topic, records, Sending(codec=codec, linger_ms=20, native={"api_version": version}))
    reader = consumer(topic, auto_offset_reset="earliest", api_version=version)
    assert take(reader, 20) == list(range(20))
    by_time = reader.offsets_for_times({TopicPartition(topic, 0): NOON_MS + 5})[TopicPartition(topic, 0)]
    assert by_time.offset == 5


def test_missing_partitions_are_reported_as_unknown(
    unused_topic: Callable[[], str], topic: str, bootstrap_servers: str
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        for partition in (TopicPartition(unused_topic(), 0), TopicPartition(topic, 5)):
            with pytest.raises(UnknownTopicOrPartitionError):
                admin.list_partition_offsets({partition: -1})
    finally:
        admin.close()


def test_a_consumer_learns_of_partitions_added_later(
    python: KafkaPython, topic: str, consumer: Callable[..., Any], bootstrap_servers: str
) -> None:
    reader = consumer(topic, auto_offset_reset="earliest", metadata_max_age_ms=200)
    assert reader.partitions_for_topic(topic) == {0}
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.create_partitions({topic: 3})
    admin.close()

    def sees_three() -> bool:
        reader.poll(timeout_ms=50)
        return bool(reader.partitions_for_topic(topic) == {0, 1, 2})

    eventually(sees_three, "the new partitions")
    python.produce(topic, [Record(b"v", partition=2)])
    reader.assign([TopicPartition(topic, 2)])
    assert take(reader, 1) == [0]
