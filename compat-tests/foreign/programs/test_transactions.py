"""Transactions by confluent-kafka and by aiokafka: what commits is seen, what aborts is not, offsets move with them."""

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError, ProducerFenced
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from conftest import NewTopic
from foreign.in_a_loop import in_a_loop

PATIENCE_S = 30.0


@pytest.fixture
def transactional_id() -> str:
    return f"transactional-{secrets.token_hex(4)}"


def producing(bootstrap_servers: str, transactional_id: str, **native: Any) -> Any:
    """A producer that has been given its epoch."""
    settings = {"bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id}
    producer = Producer({**settings, **{key.replace("_", "."): value for key, value in native.items()}})
    producer.init_transactions(PATIENCE_S)
    return producer


def visible(bootstrap_servers: str, topic: str, until: bytes, level: str = "read_committed") -> list[bytes]:
    """The values up to one that must come, in the order of their offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused", "isolation.level": level})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while until not in found and time.monotonic() < deadline:
        found += [message.value() or b"" for message in consumer.consume(100, 0.1)]
    consumer.close()
    return found


def plainly(bootstrap_servers: str, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def test_committed_records_are_read_and_aborted_ones_are_not(
    bootstrap_servers: str, topic: str, transactional_id: str
) -> None:
    producer = producing(bootstrap_servers, transactional_id)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        if number % 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    plainly(bootstrap_servers, topic, b"end")
    assert visible(bootstrap_servers, topic, b"end") == [b"0", b"2", b"4", b"end"]
    everything = visible(bootstrap_servers, topic, b"end", "read_uncommitted")
    assert set(everything) >= {b"0", b"2", b"4", b"end"}


def test_records_after_an_open_transaction_are_not_read(
    bootstrap_servers: str, topic: str, transactional_id: str
) -> None:
    producer = producing(bootstrap_servers, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    plainly(bootstrap_servers, topic, b"behind")
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.consume(1, 1.0) == []
    producer.commit_transaction(PATIENCE_S)
    assert [message.value() for message in consumer.consume(2, PATIENCE_S)] == [b"open", b"behind"]
    consumer.close()


def test_a_transaction_spans_partitions_and_topics(
    bootstrap_servers: str, new_topic: NewTopic, transactional_id: str
) -> None:
    one, other = new_topic(partitions=3), new_topic()
    producer = producing(bootstrap_servers, transactional_id)
    for outcome in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(one, outcome.__name__.encode(), partition=partition)
        producer.produce(other, outcome.__name__.encode(), partition=0)
        outcome(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(one, number, 0) for number in range(3)] + [TopicPartition(other, 0, 0)])
    assert {message.value() for message in consumer.consume(4, PATIENCE_S)} == {b"commit_transaction"}
    consumer.close()


def test_offsets_move_with_the_transaction(
    bootstrap_servers: str, new_topic: NewTopic, topic: str, transactional_id: str
) -> None:
    source, group = new_topic(), f"moving-{secrets.token_hex(4)}"
    for number in range(4):
        plainly(bootstrap_servers, source, b"%d" % number)
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([source])
    messages = consumer.consume(4, PATIENCE_S)
    assert len(messages) == 4
    producer = producing(bootstrap_servers, transactional_id)
    for upto, outcome in ((4, producer.abort_transaction), (2, producer.commit_transaction)):
        producer.begin_transaction()
        for message in messages[:upto]:
            producer.produce(topic, b"copy of " + (message.value() or b""), partition=0)
        offsets = [TopicPartition(source, 0, upto)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
        outcome(PATIENCE_S)
    (committed,) = consumer.committed([TopicPartition(source, 0)], PATIENCE_S)
    assert committed.offset == 2
    consumer.close()
    plainly(bootstrap_servers, topic, b"end")
    assert visible(bootstrap_servers, topic, b"end") == [b"copy of 0", b"copy of 1", b"end"]


def test_a_successor_fences_the_older_producer(bootstrap_servers: str, topic: str, transactional_id: str) -> None:
    older = producing(bootstrap_servers, transactional_id)
    older.begin_transaction()
    older.produce(topic, b"never seen", partition=0)
    assert older.flush(PATIENCE_S) == 0
    newer = producing(bootstrap_servers, transactional_id)
    with pytest.raises(KafkaException) as refusal:
        older.commit_transaction(PATIENCE_S)
    assert refusal.value.args[0].fatal()
    newer.begin_transaction()
    newer.produce(topic, b"seen", partition=0)
    newer.commit_transaction(PATIENCE_S)
    assert visible(bootstrap_servers, topic, b"seen") == [b"seen"]


def test_an_abandoned_transaction_is_aborted_in_time(bootstrap_servers: str, topic: str, transactional_id: str) -> None:
    producer = producing(bootstrap_servers, transactional_id, transaction_timeout_ms=1_000)
    producer.begin_transaction()
    producer.produce(topic, b"abandoned", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    plainly(bootstrap_servers, topic, b"end")
    assert visible(bootstrap_servers, topic, b"end") == [b"end"]


def test_a_timeout_above_the_brokers_limit_is_refused(bootstrap_servers: str, transactional_id: str) -> None:
    with pytest.raises(KafkaException) as refusal:
        producing(bootstrap_servers, transactional_id, transaction_timeout_ms=2_000_000_000)
    assert refusal.value.args[0].code() == confluent_kafka.KafkaError.INVALID_TRANSACTION_TIMEOUT


async def aio_values(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    reader = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with reader:
        return [(await reader.getone()).value for _ in range(count)]


@in_a_loop
async def test_aiokafka_commits_and_aborts(bootstrap_servers: str, topic: str, transactional_id: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=transactional_id) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"one")
        with pytest.raises(RuntimeError, match="changed"):  # noqa: PT012  the block is what aborts
            async with producer.transaction():
                await producer.send_and_wait(topic, b"two")
                raise RuntimeError("changed my mind")
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"three")
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.abort_transaction()
    assert await aio_values(bootstrap_servers, topic, 2) == [b"one", b"three"]


@in_a_loop
async def test_aiokafka_moves_offsets_with_the_transaction(
    bootstrap_servers: str, topic: str, transactional_id: str
) -> None:
    group = f"moving-{secrets.token_hex(4)}"
    partition = AioTopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=transactional_id) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"x")
            await producer.send_offsets_to_transaction({partition: 1}, group)
        with pytest.raises(RuntimeError, match="changed"):  # noqa: PT012  the block is what aborts
            async with producer.transaction():
                await producer.send_offsets_to_transaction({partition: 7}, group)
                raise RuntimeError("changed my mind")
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=group) as reader:
        reader.assign([partition])
        assert await reader.committed(partition) == 1


@in_a_loop
async def test_aiokafkas_older_producer_is_fenced(bootstrap_servers: str, topic: str, transactional_id: str) -> None:
    settings = {"bootstrap_servers": bootstrap_servers, "transactional_id": transactional_id}
    older = AIOKafkaProducer(**settings)
    await older.start()
    await older.begin_transaction()
    await older.send_and_wait(topic, b"never seen")
    async with AIOKafkaProducer(**settings) as newer:
        with pytest.raises((ProducerFenced, KafkaError)):
            await older.commit_transaction()
        async with newer.transaction():
            await newer.send_and_wait(topic, b"seen")
    await older.stop()
    assert await aio_values(bootstrap_servers, topic, 1) == [b"seen"]


@in_a_loop
async def test_many_transactional_producers_at_once(
    bootstrap_servers: str, new_topic: NewTopic, unused_topic: Callable[[], str]
) -> None:
    topic, stem = new_topic(), unused_topic()

    async def one(number: int) -> None:
        settings = {"bootstrap_servers": bootstrap_servers, "transactional_id": f"{stem}-{number}"}
        async with AIOKafkaProducer(**settings) as producer:
            for turn in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d.%d" % (number, turn))
                await (producer.abort_transaction() if turn % 2 else producer.commit_transaction())

    await asyncio.gather(*(one(number) for number in range(8)))
    found = await aio_values(bootstrap_servers, topic, 16)
    assert sorted(found) == sorted(b"%d.%d" % (number, turn) for number in range(8) for turn in (0, 2))
