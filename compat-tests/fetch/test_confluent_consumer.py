"""confluent-kafka's consumer with assigned partitions: where it starts, how it moves, what it gets at the edges."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from conftest import NewTopic
from support.clients import Confluent, Record, Sending
from support.waiting import eventually

NOON_MS = 1_600_000_000_000


@pytest.fixture
def confluent(bootstrap_servers: str) -> Confluent:
    return Confluent(bootstrap_servers)


@pytest.fixture
def consumer(confluent: Confluent) -> Iterator[Callable[..., Any]]:
    """Opens consumers, assigned to nothing yet; closes them at the end."""
    opened: list[Any] = []

    def open_one(**settings: Any) -> Any:
        opened.append(confluent.consumer(**settings))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def fill(confluent: Confluent, topic: str, count: int, partition: int = 0, size: int = 1) -> None:
    """Records whose value is their number, in batches of ten, one millisecond apart from ``NOON_MS`` on."""
    records = [
        Record(str(number).encode().rjust(size, b"0"), timestamp_ms=NOON_MS + number, partition=partition)
        for number in range(count)
    ]
    confluent.produce(topic, records, Sending(linger_ms=5, native={"batch.num.messages": 10}))


def take(consumer: Any, count: int) -> list[int]:
    """The offsets of the next ``count`` records; fails on an error event."""
    offsets: list[int] = []

    def enough() -> bool:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None, message.error()
            offsets.append(message.offset())
        return len(offsets) >= count

    eventually(enough, f"{count} records", every_s=0)
    return offsets


def next_error(consumer: Any) -> int:
    """The code of the next error event; records before it are dropped."""
    errors: list[int] = []

    def found() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is not None:
            errors.append(message.error().code())
        return bool(errors)

    eventually(found, "an error event", every_s=0)
    return errors[0]


def test_assign_at_an_offset_seek_and_rewind(confluent: Confluent, topic: str, consumer: Callable[..., Any]) -> None:
    fill(confluent, topic, 100)
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 42)])
    assert take(reader, 3) == [42, 43, 44]
    reader.seek(TopicPartition(topic, 0, 7))
    assert take(reader, 2) == [7, 8]
    reader.seek(TopicPartition(topic, 0, 99))
    assert take(reader, 1) == [99]
    reader.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert take(reader, 100) == list(range(100))


@pytest.mark.parametrize(("start", "first"), [(OFFSET_BEGINNING, 0), (OFFSET_END, 10)])
def test_logical_offsets(
    confluent: Confluent, topic: str, consumer: Callable[..., Any], start: int, first: int
) -> None:
    fill(confluent, topic, 10)
    reader = consumer(enable_partition_eof=True)
    reader.assign([TopicPartition(topic, 0, start)])
    assert next_error(reader) == KafkaError._PARTITION_EOF
    fill(confluent, topic, 2)
    assert take(reader, 2) == [10, 11]
    reader.seek(TopicPartition(topic, 0, first))
    assert take(reader, 12 - first) == list(range(first, 12))


def test_the_end_of_a_partition_is_announced(confluent: Confluent, topic: str, consumer: Callable[..., Any]) -> None:
    fill(confluent, topic, 4)
    reader = consumer(enable_partition_eof=True)
    reader.assign([TopicPartition(topic, 0, 0)])
    assert take(reader, 4) == [0, 1, 2, 3]
    assert next_error(reader) == KafkaError._PARTITION_EOF


def test_an_offset_out_of_range_is_an_error_where_no_reset_is_allowed(
    confluent: Confluent, topic: str, consumer: Callable[..., Any]
) -> None:
    fill(confluent, topic, 4)
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 1_000)])
    assert next_error(reader) == KafkaError._AUTO_OFFSET_RESET


@pytest.mark.parametrize(("reset", "expected"), [("earliest", [3, 4, 5]), ("latest", [10, 11])])
def test_an_offset_below_the_log_start_follows_the_reset_policy(
    confluent: Confluent, topic: str, consumer: Callable[..., Any], admin: AdminClient, reset: str, expected: list[int]
) -> None:
    fill(confluent, topic, 10)
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 3)]).values()
    assert deleted.result(30).low_watermark == 3
    reader = consumer(auto_offset_reset=reset, enable_partition_eof=True)
    reader.assign([TopicPartition(topic, 0, 1)])
    if reset == "latest":
        assert next_error(reader) == KafkaError._PARTITION_EOF
        fill(confluent, topic, 2)
    assert take(reader, len(expected)) == expected


def test_watermarks_from_the_broker_and_from_the_last_fetch_agree(
    confluent: Confluent, topic: str, consumer: Callable[..., Any]
) -> None:
    fill(confluent, topic, 25)
    reader = consumer()
    partition = TopicPartition(topic, 0, 20)
    assert reader.get_watermark_offsets(partition, timeout=30) == (0, 25)
    reader.assign([partition])
    take(reader, 5)
    assert reader.get_watermark_offsets(partition, cached=True)[1] == 25


def test_offsets_by_time(confluent: Confluent, new_topic: NewTopic, consumer: Callable[..., Any]) -> None:
    topic = new_topic(partitions=2)
    fill(confluent, topic, 50, 0)
    fill(confluent, topic, 10, 1)
    asked = [TopicPartition(topic, 0, NOON_MS + 25), TopicPartition(topic, 1, NOON_MS + 25)]
    assert [answer.offset for answer in consumer().offsets_for_times(asked, timeout=30)] == [25, OFFSET_END]
    asked = [TopicPartition(topic, 0, 1), TopicPartition(topic, 1, NOON_MS + 9)]
    assert [answer.offset for answer in consumer().offsets_for_times(asked, timeout=30)] == [0, 9]


def test_pause_and_resume(confluent: Confluent, new_topic: NewTopic, consumer: Callable[..., Any]) -> None:
    topic = new_topic(partitions=2)
    fill(confluent, topic, 5, 0)
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    reader.pause([TopicPartition(topic, 0)])
    fill(confluent, topic, 3, 1)
    assert take(reader, 3) == [0, 1, 2]
    assert reader.poll(0.3) is None
    reader.resume([TopicPartition(topic, 0)])
    assert take(reader, 5) == [0, 1, 2, 3, 4]


def test_partitions_are_added_to_and_taken_from_the_assignment(
    confluent: Confluent, new_topic: NewTopic, consumer: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        fill(confluent, topic, 2, partition)
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 0)])
    assert take(reader, 2) == [0, 1]
    reader.incremental_assign([TopicPartition(topic, 1, 0), TopicPartition(topic, 2, 1)])
    assert sorted(take(reader, 3)) == [0, 1, 1]
    reader.incremental_unassign([TopicPartition(topic, 0)])
    fill(confluent, topic, 1, 0)
    fill(confluent, topic, 1, 2)
    assert take(reader, 1) == [2]
    assert {at.partition for at in reader.assignment()} == {1, 2}


def test_consume_returns_no_more_messages_than_asked(
    confluent: Confluent, topic: str, consumer: Callable[..., Any]
) -> None:
    fill(confluent, topic, 40)
    reader = consumer()
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [message.offset() for message in reader.consume(15, 30)] == list(range(15))
    assert [message.offset() for message in reader.consume(25, 30)] == list(range(15, 40))


def test_records_larger_than_the_fetch_limits_still_arrive(
    confluent: Confluent, new_topic: NewTopic, consumer: Callable[..., Any]
) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        fill(confluent, topic, 10, partition, size=5_000)
    reader = consumer(fetch_message_max_bytes=1_000, fetch_max_bytes=1_000, message_max_bytes=1_000)
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    assert sorted(take(reader, 30)) == sorted(list(range(10)) * 3)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_both_isolation_levels_see_records_outside_of_transactions(
    confluent: Confluent, topic: str, consumer: Callable[..., Any], isolation: str
) -> None:
    fill(confluent, topic, 6)
    reader = consumer(isolation_level=isolation, check_crcs=True)
    reader.assign([TopicPartition(topic, 0, 0)])
    assert take(reader, 6) == list(range(6))


def test_a_topic_that_does_not_exist_is_reported(consumer: Callable[..., Any], unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    reader = consumer(allow_auto_create_topics=False)
    assert reader.list_topics(name, timeout=30).topics[name].error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(KafkaException) as refusal:
        reader.get_watermark_offsets(TopicPartition(name, 0), timeout=30)
    assert refusal.value.args[0].code() == KafkaError._UNKNOWN_PARTITION


def test_a_partition_that_does_not_exist_is_reported(topic: str, consumer: Callable[..., Any]) -> None:
    with pytest.raises(KafkaException) as refusal:
        consumer().get_watermark_offsets(TopicPartition(topic, 9), timeout=30)
    assert refusal.value.args[0].code() == KafkaError._UNKNOWN_PARTITION


def test_metadata_names_brokers_topics_and_leaders(new_topic: NewTopic, consumer: Callable[..., Any]) -> None:
    topic = new_topic(partitions=4)
    metadata = consumer().list_topics(topic, timeout=30)
    (broker_id,) = metadata.brokers
    partitions = metadata.topics[topic].partitions
    assert metadata.topics.keys() == {topic}
    assert metadata.topics[topic].error is None
    assert sorted(partitions) == [0, 1, 2, 3]
    assert {(one.leader, tuple(one.replicas), tuple(one.isrs)) for one in partitions.values()} == {
        (broker_id, (broker_id,), (broker_id,))
    }
