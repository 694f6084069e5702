"""aiokafka's producer, as wide as its documentation: a record comes back as it was sent, in each way."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    RecordTooLargeError,
)

from conftest import NewTopic
from foreign.in_a_loop import in_a_loop


@asynccontextmanager
async def producing(bootstrap_servers: str, **settings: Any) -> AsyncIterator[Any]:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **settings) as producer:
        yield producer


async def everything(bootstrap_servers: str, topic: str, count: int, **settings: Any) -> list[Any]:
    """The first records of a topic, partition by partition."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", check_crcs=True, **settings
    )
    async with consumer:
        found = [await consumer.getone() for _ in range(count)]
    return sorted(found, key=lambda record: (record.partition, record.offset))


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", [0, 1, "all"])
@in_a_loop
async def test_records_survive_every_codec_and_acks(
    bootstrap_servers: str, topic: str, codec: str | None, acks: Any
) -> None:
    values = [f"value {number}".encode() * 20 for number in range(50)]
    async with producing(bootstrap_servers, compression_type=codec, acks=acks, linger_ms=5) as producer:
        for value in values:
            await producer.send(topic, value)
        await producer.flush()
    assert [record.value for record in await everything(bootstrap_servers, topic, 50)] == values


@in_a_loop
async def test_the_metadata_of_a_record_says_where_it_went(bootstrap_servers: str, topic: str) -> None:
    async with producing(bootstrap_servers) as producer:
        first = await producer.send_and_wait(topic, b"a", timestamp_ms=1_700_000_000_000)
        second = await producer.send_and_wait(topic, b"b")
    assert (first.topic, first.partition, first.offset) == (topic, 0, 0)
    assert (first.timestamp, first.timestamp_type, first.log_start_offset) == (1_700_000_000_000, 0, 0)
    assert second.offset == 1
    assert abs(second.timestamp - time.time() * 1000) < 60_000


@in_a_loop
async def test_a_topic_of_append_time_answers_with_the_brokers_clock(
    bootstrap_servers: str, new_topic: NewTopic
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    async with producing(bootstrap_servers) as producer:
        answer = await producer.send_and_wait(topic, b"a", timestamp_ms=5)
    (record,) = await everything(bootstrap_servers, topic, 1)
    assert answer.timestamp_type == record.timestamp_type == 1
    assert answer.timestamp == record.timestamp > 1_600_000_000_000


@in_a_loop
async def test_keys_headers_and_nulls_come_back(bootstrap_servers: str, topic: str) -> None:
    headers = [("trace", b"\x00\xff"), ("trace", b""), ("ünïcode", b"x" * 5_000)]
    async with producing(bootstrap_servers) as producer:
        await producer.send_and_wait(topic, b"value", key=b"key", headers=headers)
        await producer.send_and_wait(topic, None, key=b"gone")
        await producer.send_and_wait(topic, b"alone")
    full, tombstone, alone = await everything(bootstrap_servers, topic, 3)
    assert (full.key, full.value, list(full.headers)) == (b"key", b"value", headers)
    assert (tombstone.key, tombstone.value) == (b"gone", None)
    assert (alone.key, alone.value, list(alone.headers)) == (None, b"alone", [])


@in_a_loop
async def test_serializers_of_both_sides_meet(bootstrap_servers: str, topic: str) -> None:
    async with producing(bootstrap_servers, key_serializer=str.encode, value_serializer=str.encode) as producer:
        await producer.send_and_wait(topic, "wért", key="schlüssel")
    (record,) = await everything(
        bootstrap_servers, topic, 1, key_deserializer=bytes.decode, value_deserializer=bytes.decode
    )
    assert (record.key, record.value) == ("schlüssel", "wért")


@in_a_loop
async def test_partitions_are_chosen_by_the_user_by_key_and_by_a_function(
    bootstrap_servers: str, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=4)
    async with producing(bootstrap_servers) as producer:
        assert await producer.partitions_for(topic) == {0, 1, 2, 3}
        assert [(await producer.send_and_wait(topic, b"x", partition=at)).partition for at in range(4)] == [0, 1, 2, 3]
        keyed = {(await producer.send_and_wait(topic, b"x", key=b"same")).partition for _ in range(5)}
    assert len(keyed) == 1
    async with producing(bootstrap_servers, partitioner=lambda _key, everyone, _now: max(everyone)) as producer:
        assert (await producer.send_and_wait(topic, b"x", key=b"any")).partition == 3


@in_a_loop
async def test_batches_put_together_by_hand(bootstrap_servers: str, topic: str) -> None:
    async with producing(bootstrap_servers) as producer:
        batch = producer.create_batch()
        for number in range(10):
            assert batch.append(key=None, value=b"%d" % number, timestamp=None) is not None
        batch.close()
        answer = await (await producer.send_batch(batch, topic, partition=0))
    assert answer.offset == 0
    assert [record.value for record in await everything(bootstrap_servers, topic, 10)] == [b"%d" % n for n in range(10)]


@in_a_loop
async def test_an_idempotent_producer_keeps_order_over_many_batches(bootstrap_servers: str, topic: str) -> None:
    async with producing(bootstrap_servers, enable_idempotence=True, max_batch_size=1_000) as producer:
        sent = [await producer.send(topic, b"%05d" % number * 10) for number in range(500)]
        offsets = [(await answer).offset for answer in sent]
    assert offsets == list(range(500))
    found = await everything(bootstrap_servers, topic, 500)
    assert [record.value for record in found] == [b"%05d" % number * 10 for number in range(500)]


@in_a_loop
async def test_lingering_gathers_records_into_one_batch(bootstrap_servers: str, topic: str) -> None:
    async with producing(bootstrap_servers, linger_ms=50) as producer:
        sent = await asyncio.gather(*(producer.send(topic, b"x") for _ in range(20)))
        assert [(await answer).offset for answer in sent] == list(range(20))


@in_a_loop
async def test_records_that_are_too_large_are_refused_by_client_or_broker(
    bootstrap_servers: str, new_topic: NewTopic
) -> None:
    topic = new_topic(max_message_bytes="2000")
    async with producing(bootstrap_servers, max_request_size=10_000) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait(topic, b"x" * 20_000)
        with pytest.raises((RecordTooLargeError, MessageSizeTooLargeError)):
            await producer.send_and_wait(topic, b"x" * 5_000)
        assert (await producer.send_and_wait(topic, b"small")).offset == 0


@in_a_loop
async def test_a_compacted_topic_wants_keys(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    async with producing(bootstrap_servers, request_timeout_ms=3_000) as producer:
        with pytest.raises(KafkaError):
            await producer.send_and_wait(topic, b"no key")
        assert (await producer.send_and_wait(topic, b"value", key=b"key")).offset == 0


@in_a_loop
async def test_a_topic_is_created_by_its_first_record(bootstrap_servers: str, unused_topic: Callable[[], str]) -> None:
    topic = unused_topic()
    async with producing(bootstrap_servers) as producer:
        assert (await producer.send_and_wait(topic, b"first")).offset == 0
    assert [record.value for record in await everything(bootstrap_servers, topic, 1)] == [b"first"]


@in_a_loop
async def test_twenty_producers_share_a_topic(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)

    async def one(number: int) -> None:
        async with producing(bootstrap_servers, client_id=f"producer-{number}") as producer:
            for _ in range(5):
                await producer.send_and_wait(topic, b"%d" % number)

    await asyncio.gather(*(one(number) for number in range(20)))
    found = await everything(bootstrap_servers, topic, 100)
    assert sorted(int(record.value) for record in found) == sorted(list(range(20)) * 5)
    ends = {TopicPartition(topic, number) for number in range(3)}
    assert {TopicPartition(topic, record.partition) for record in found} <= ends
