"""confluent-kafka in groups: every assignor, commits of every kind, patterns, static members, callbacks."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from conftest import NewTopic
from support.waiting import as_written, eventually

PATIENCE_S = 30.0


@pytest.fixture
def group() -> str:
    return f"confluent-{secrets.token_hex(4)}"


@contextmanager
def member(bootstrap_servers: str, group: str, **native: Any) -> Iterator[Any]:
    """A consumer in the group; the names of settings have ``_`` for ``.``."""
    settings = {
        "bootstrap_servers": bootstrap_servers,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 200,
        "topic_metadata_refresh_interval_ms": 500,
        **native,
    }
    named = {key if key == "on_commit" else key.replace("_", "."): value for key, value in settings.items()}
    consumer = Consumer(named)
    try:
        yield consumer
    finally:
        consumer.close()


def write(bootstrap_servers: str, topic: str, count: int, partitions: int = 1) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0


def polling(condition: Callable[[], object], members: Sequence[Any]) -> None:
    """Poll all members until something holds; messages that come meanwhile are dropped."""

    def is_so() -> object:
        for one in members:
            one.poll(0.02)
        return condition()

    eventually(is_so, as_written(condition))


def next_messages(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [message for message in consumer.consume(count - len(found), 0.2) if message.error() is None]
    return found


def shared(members: Sequence[Any], partitions: int) -> Callable[[], bool]:
    def holds() -> bool:
        owned = [sorted(partition.partition for partition in one.assignment()) for one in members]
        return all(owned) and sorted(chain(*owned)) == list(range(partitions))

    return holds


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky", "range,roundrobin"])
def test_each_assignor_shares_partitions_and_hands_them_over(
    bootstrap_servers: str, new_topic: NewTopic, group: str, assignor: str
) -> None:
    topic = new_topic(partitions=6)
    with (
        member(bootstrap_servers, group, partition_assignment_strategy=assignor) as first,
        member(bootstrap_servers, group, partition_assignment_strategy=assignor) as second,
    ):
        first.subscribe([topic])
        polling(shared([first], 6), [first])
        second.subscribe([topic])
        polling(shared([first, second], 6), [first, second])
        second.unsubscribe()
        polling(shared([first], 6), [first, second])


def test_members_with_nothing_in_common_are_refused(bootstrap_servers: str, topic: str, group: str) -> None:
    with (
        member(bootstrap_servers, group, partition_assignment_strategy="range") as first,
        member(bootstrap_servers, group, partition_assignment_strategy="roundrobin") as second,
    ):
        first.subscribe([topic])
        polling(first.assignment, [first])
        second.subscribe([topic])
        errors: list[int] = []

        def refused() -> bool:
            message = second.poll(0.1)
            if message is not None and message.error() is not None:
                errors.append(message.error().code())
            return KafkaError.INCONSISTENT_GROUP_PROTOCOL in errors

        polling(refused, [first])


def test_callbacks_hear_of_partitions_that_come_and_go(bootstrap_servers: str, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=2)
    heard: list[tuple[str, set[int]]] = []

    def note(what: str) -> Callable[[Any, Sequence[TopicPartition]], None]:
        return lambda _consumer, partitions: heard.append((what, {one.partition for one in partitions}))

    with member(bootstrap_servers, group) as first, member(bootstrap_servers, group) as second:
        first.subscribe([topic], on_assign=note("assigned"), on_revoke=note("revoked"), on_lost=note("lost"))
        polling(lambda: ("assigned", {0, 1}) in heard, [first])
        second.subscribe([topic])
        polling(shared([first, second], 2), [first, second])
        assert ("revoked", {0, 1}) in heard
        assert "lost" not in {what for what, _ in heard}


def test_commits_of_every_kind(bootstrap_servers: str, topic: str, group: str) -> None:
    write(bootstrap_servers, topic, 10)
    here = TopicPartition(topic, 0)
    with member(bootstrap_servers, group) as consumer:
        consumer.subscribe([topic])
        assert consumer.committed([here], PATIENCE_S)[0].offset == OFFSET_INVALID
        messages = next_messages(consumer, 5)
        assert [one.offset for one in consumer.commit(message=messages[0], asynchronous=False)] == [1]
        consumer.commit(asynchronous=False)
        assert consumer.committed([here], PATIENCE_S)[0].offset == 5
        consumer.commit(offsets=[TopicPartition(topic, 0, 7, metadata="noted")], asynchronous=False)
        (found,) = consumer.committed([here], PATIENCE_S)
        assert (found.offset, found.metadata) == (7, "noted")


def test_commits_in_the_background_report_to_a_callback(bootstrap_servers: str, topic: str, group: str) -> None:
    write(bootstrap_servers, topic, 3)
    reports: list[tuple[Any, list[int]]] = []
    callback = {"on_commit": lambda error, partitions: reports.append((error, [one.offset for one in partitions]))}
    with member(bootstrap_servers, group, **callback) as consumer:
        consumer.subscribe([topic])
        next_messages(consumer, 3)
        assert consumer.commit(asynchronous=True) is None
        polling(lambda: (None, [3]) in reports, [consumer])


def test_automatic_commits_take_what_was_stored(bootstrap_servers: str, topic: str, group: str) -> None:
    write(bootstrap_servers, topic, 10)
    settings = {"enable_auto_commit": True, "enable_auto_offset_store": False, "auto_commit_interval_ms": 60_000}
    with member(bootstrap_servers, group, **settings) as consumer:
        consumer.subscribe([topic])
        messages = next_messages(consumer, 10)
        consumer.store_offsets(message=messages[3])
    with member(bootstrap_servers, group) as consumer:
        consumer.subscribe([topic])
        assert next_messages(consumer, 1)[0].offset() == 4


def test_a_group_starts_where_its_offsets_are(bootstrap_servers: str, topic: str, group: str) -> None:
    write(bootstrap_servers, topic, 5)
    with member(bootstrap_servers, group) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
        consumer.assign([TopicPartition(topic, 0, OFFSET_STORED)])
        assert next_messages(consumer, 1)[0].offset() == 3


def test_commits_that_cannot_be_are_refused(bootstrap_servers: str, topic: str, group: str) -> None:
    with member(bootstrap_servers, group) as consumer:
        with pytest.raises(KafkaException) as refusal:
            consumer.commit(offsets=[TopicPartition(topic, 99, 1)], asynchronous=False)
        assert refusal.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        with pytest.raises(KafkaException) as refusal:
            consumer.commit(offsets=[TopicPartition(topic, 0, 1, metadata="x" * 5_000)], asynchronous=False)
        assert refusal.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
        with pytest.raises(KafkaException) as refusal:
            consumer.commit(asynchronous=False)
        assert refusal.value.args[0].code() == KafkaError._NO_OFFSET


def test_a_pattern_finds_topics_also_later_ones(
    bootstrap_servers: str, unused_topic: Callable[[], str], group: str
) -> None:
    stem = unused_topic()
    write(bootstrap_servers, stem, 1)
    with member(bootstrap_servers, group) as consumer:
        consumer.subscribe([f"^{stem}.*"])
        assert next_messages(consumer, 1)[0].topic() == stem
        write(bootstrap_servers, f"{stem}-later", 1)
        assert f"{stem}-later" in {message.topic() for message in next_messages(consumer, 2)}


def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=4)
    rounds: list[int] = []
    with member(bootstrap_servers, group, group_instance_id="stays") as stays:
        stays.subscribe([topic], on_assign=lambda _consumer, partitions: rounds.append(len(partitions)))
        with member(bootstrap_servers, group, group_instance_id="restarts") as restarts:
            restarts.subscribe([topic])
            polling(shared([stays, restarts], 4), [stays, restarts])
            owned = {partition.partition for partition in restarts.assignment()}
        before = len(rounds)
        with member(bootstrap_servers, group, group_instance_id="restarts") as again:
            again.subscribe([topic])
            polling(lambda: {partition.partition for partition in again.assignment()} == owned, [stays, again])
            assert len(rounds) == before


def test_a_second_static_member_of_the_same_name_fences_the_first(
    bootstrap_servers: str, topic: str, group: str
) -> None:
    with member(bootstrap_servers, group, group_instance_id="one") as first:
        first.subscribe([topic])
        polling(first.assignment, [first])
        with member(bootstrap_servers, group, group_instance_id="one") as second:
            second.subscribe([topic])
            errors: list[Any] = []

            def fenced() -> bool:
                try:
                    message = first.poll(0.1)
                except KafkaException as raised:
                    errors.append(raised.args[0].code())
                    return True
                if message is not None and message.error() is not None:
                    errors.append(message.error().code())
                return bool(errors)

            polling(fenced, [second])
            assert errors[0] in (KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL)


def test_paused_partitions_stay_silent_in_a_group(bootstrap_servers: str, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=2)
    with member(bootstrap_servers, group) as consumer:
        consumer.subscribe([topic])
        polling(shared([consumer], 2), [consumer])
        consumer.pause([TopicPartition(topic, 0)])
        write(bootstrap_servers, topic, 10, partitions=2)
        assert {message.partition() for message in next_messages(consumer, 5)} == {1}
        consumer.resume([TopicPartition(topic, 0)])
        assert {message.partition() for message in next_messages(consumer, 5)} == {0}
        consumer.seek(TopicPartition(topic, 0, 2))
        assert [message.offset() for message in next_messages(consumer, 3)] == [2, 3, 4]


@pytest.mark.slow
def test_a_member_that_does_not_poll_is_put_out(bootstrap_servers: str, topic: str, group: str) -> None:
    settings = {"max_poll_interval_ms": 6_000, "session_timeout_ms": 6_000}
    with member(bootstrap_servers, group, **settings) as lazy, member(bootstrap_servers, group) as other:
        lazy.subscribe([topic])
        polling(lazy.assignment, [lazy])
        other.subscribe([topic])
        polling(other.assignment, [other])
        message = lazy.poll(5)
        assert message is not None
        assert message.error().code() == KafkaError._MAX_POLL_EXCEEDED


def test_the_group_metadata_of_a_member(bootstrap_servers: str, topic: str, group: str) -> None:
    with member(bootstrap_servers, group) as consumer:
        consumer.subscribe([topic])
        polling(consumer.assignment, [consumer])
        assert consumer.consumer_group_metadata() is not None
        assert consumer.memberid().startswith("rdkafka-")
