"""aiokafka's consumer on partitions that are assigned by hand: positions, limits, offsets by time, metadata."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError, RecordTooLargeError

from conftest import NewTopic
from foreign.in_a_loop import in_a_loop
from support.waiting import until


@asynccontextmanager
async def reading(bootstrap_servers: str, *topics: str, **settings: Any) -> AsyncIterator[Any]:
    settings = {"auto_offset_reset": "earliest", **settings}
    async with AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap_servers, **settings) as consumer:
        yield consumer


async def write(bootstrap_servers: str, topic: str, count: int, partition: int = 0, size: int = 1, **sent: Any) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number * size, partition=partition, **sent)
        await producer.flush()


@in_a_loop
async def test_seeking_goes_anywhere(bootstrap_servers: str, topic: str) -> None:
    await write(bootstrap_servers, topic, 10)
    partition = TopicPartition(topic, 0)
    async with reading(bootstrap_servers) as consumer:
        consumer.assign([partition])
        assert consumer.assignment() == {partition}
        consumer.seek(partition, 7)
        assert ((await consumer.getone()).offset, await consumer.position(partition)) == (7, 8)
        await consumer.seek_to_beginning(partition)
        assert (await consumer.getone()).offset == 0
        await consumer.seek_to_end(partition)
        assert await consumer.position(partition) == 10
        assert await consumer.getmany(timeout_ms=100) == {}
        assert (consumer.highwater(partition), consumer.last_stable_offset(partition)) == (10, 10)


@in_a_loop
async def test_the_ends_of_partitions(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    await write(bootstrap_servers, topic, 5, partition=1)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    async with reading(bootstrap_servers) as consumer:
        assert await consumer.beginning_offsets(both) == {both[0]: 0, both[1]: 0}
        assert await consumer.end_offsets(both) == {both[0]: 0, both[1]: 5}


@in_a_loop
async def test_offsets_by_time(bootstrap_servers: str, topic: str) -> None:
    start_ms = 1_700_000_000_000
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(5):
            await producer.send_and_wait(topic, b"x", partition=0, timestamp_ms=start_ms + 1_000 * number)
    partition = TopicPartition(topic, 0)
    async with reading(bootstrap_servers) as consumer:
        for asked, offset in ((start_ms, 0), (start_ms + 1, 1), (start_ms + 4_000, 4)):
            found = (await consumer.offsets_for_times({partition: asked}))[partition]
            assert (found.offset, found.timestamp) == (offset, start_ms + 1_000 * offset)
        assert (await consumer.offsets_for_times({partition: start_ms + 4_001}))[partition] is None


@in_a_loop
async def test_paused_partitions_are_silent(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    for partition in both:
        await write(bootstrap_servers, topic, 5, partition=partition.partition)
    async with reading(bootstrap_servers) as consumer:
        consumer.assign(both)
        consumer.pause(both[0])
        assert consumer.paused() == {both[0]}
        assert {(await consumer.getone()).partition for _ in range(5)} == {1}
        assert await consumer.getmany(timeout_ms=200) == {}
        consumer.resume(both[0])
        assert [(await consumer.getone()).offset for _ in range(5)] == list(range(5))


@in_a_loop
async def test_getmany_keeps_to_its_limits(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    for number in range(2):
        await write(bootstrap_servers, topic, 20, partition=number)
    wanted = TopicPartition(topic, 1)
    async with reading(bootstrap_servers, topic) as consumer:
        chosen = await consumer.getmany(wanted, timeout_ms=5_000, max_records=7)
        assert [record.offset for record in chosen[wanted]] == list(range(7))
        assert sum(len(records) for records in (await consumer.getmany(timeout_ms=5_000, max_records=3)).values()) <= 3


@in_a_loop
async def test_records_larger_than_the_fetch_limits(bootstrap_servers: str, topic: str) -> None:
    await write(bootstrap_servers, topic, 3, size=100_000)
    async with reading(bootstrap_servers, topic, fetch_max_bytes=1_000, max_partition_fetch_bytes=1_000) as consumer:
        try:
            assert [len((await consumer.getone()).value) for _ in range(3)] == [100_000] * 3
        except RecordTooLargeError:
            pytest.fail("a batch larger than the limits must come whole (KIP-74)")


@in_a_loop
async def test_a_long_poll_ends_with_the_first_record(bootstrap_servers: str, topic: str) -> None:
    async with reading(bootstrap_servers, topic, fetch_max_wait_ms=30_000) as consumer:
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await write(bootstrap_servers, topic, 1)
        assert (await asyncio.wait_for(waiting, 10)).value == b"0"


@in_a_loop
async def test_an_offset_out_of_range_follows_the_policy(bootstrap_servers: str, topic: str) -> None:
    await write(bootstrap_servers, topic, 3)
    partition = TopicPartition(topic, 0)
    for policy, offset in (("earliest", 0), ("latest", 3)):
        async with reading(bootstrap_servers, auto_offset_reset=policy) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 1_000)
            await consumer.getmany(timeout_ms=500)
            assert await consumer.position(partition) in (offset, 3)
    async with reading(bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 1_000)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.getone()


@in_a_loop
async def test_both_isolation_levels_read_plain_records(bootstrap_servers: str, topic: str) -> None:
    await write(bootstrap_servers, topic, 3)
    for level in ("read_uncommitted", "read_committed"):
        async with reading(bootstrap_servers, topic, isolation_level=level) as consumer:
            assert [(await consumer.getone()).offset for _ in range(3)] == [0, 1, 2]


@in_a_loop
async def test_iterating_over_a_consumer(bootstrap_servers: str, topic: str) -> None:
    await write(bootstrap_servers, topic, 10)
    found = []
    async with reading(bootstrap_servers, topic) as consumer:
        async for record in consumer:
            found.append(record.value)
            if len(found) == 10:
                break
    assert found == [b"%d" % number for number in range(10)]


@in_a_loop
async def test_metadata_names_topics_and_partitions(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    async with reading(bootstrap_servers, topic) as consumer:
        assert topic in await consumer.topics()
        assert consumer.partitions_for_topic(topic) == {0, 1, 2}
        assert consumer.subscription() == {topic}


async def reads(consumer: Any, topic: str) -> bool:
    """Whether the next record is of this topic."""
    return bool((await consumer.getone()).topic == topic)


@in_a_loop
async def test_a_pattern_finds_topics_also_later_ones(
    bootstrap_servers: str, new_topic: NewTopic, unused_topic: Callable[[], str]
) -> None:
    topic, later = new_topic(), unused_topic()
    async with reading(bootstrap_servers, metadata_max_age_ms=200) as consumer:
        consumer.subscribe(pattern=f"^({topic}|{later})$")
        await write(bootstrap_servers, topic, 1)
        assert (await consumer.getone()).topic == topic
        await write(bootstrap_servers, later, 1)
        await until(lambda: reads(consumer, later))
