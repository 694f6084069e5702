"""aiokafka in groups: every assignor, joining and leaving, static members, commits by hand and in the background."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain
from typing import Any

import pytest
from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, OffsetMetadataTooLargeError

from conftest import NewTopic
from foreign.in_a_loop import in_a_loop
from support.waiting import until

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


@pytest.fixture
def group() -> str:
    return f"aiokafka-{secrets.token_hex(4)}"


@asynccontextmanager
async def member(bootstrap_servers: str, group: str, *topics: str, **settings: Any) -> AsyncIterator[Any]:
    defaults = {
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 100,
        "metadata_max_age_ms": 1_000,
    }
    async with AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap_servers, **{**defaults, **settings}) as consumer:
        yield consumer


async def write(bootstrap_servers: str, topic: str, count: int, partitions: int = 1) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)
        await producer.flush()


async def reads(consumer: Any, topic: str) -> bool:
    """Whether the next record is of this topic. A member that joins again reads what it did not commit once more."""
    return bool((await consumer.getone()).topic == topic)


async def has_committed(consumer: Any, partition: TopicPartition, offset: int) -> bool:
    return bool(await consumer.committed(partition) == offset)


def share_all(members: Iterable[Any], partitions: int) -> Callable[[], bool]:
    """Whether every partition has one owner and every member some partition."""

    def holds() -> bool:
        owned = [sorted(partition.partition for partition in one.assignment()) for one in members]
        return all(owned) and sorted(chain(*owned)) == list(range(partitions))

    return holds


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
@in_a_loop
async def test_each_assignor_shares_partitions_and_hands_them_over(
    bootstrap_servers: str, new_topic: NewTopic, group: str, assignor: str
) -> None:
    topic = new_topic(partitions=6)
    settings = {"partition_assignment_strategy": [ASSIGNORS[assignor]]}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(member(bootstrap_servers, group, topic, **settings))
        second = await stack.enter_async_context(member(bootstrap_servers, group, topic, **settings))
        await until(share_all([first, second], 6))
        async with member(bootstrap_servers, group, topic, **settings) as third:
            await until(share_all([first, second, third], 6))
        await until(share_all([first, second], 6))


@in_a_loop
async def test_listeners_hear_of_partitions_that_come_and_go(
    bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=2)
    heard: list[tuple[str, set[int]]] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
            heard.append(("revoked", {partition.partition for partition in revoked}))

        async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
            heard.append(("assigned", {partition.partition for partition in assigned}))

    async with member(bootstrap_servers, group) as first:
        first.subscribe([topic], listener=Listener())
        await until(lambda: ("assigned", {0, 1}) in heard)
        async with member(bootstrap_servers, group, topic) as second:
            await until(share_all([first, second], 2))
        assert ("revoked", {0, 1}) in heard
        assert {"assigned"} == {what for what, which in heard if len(which) == 1}


@in_a_loop
async def test_commits_carry_on_where_the_last_member_stopped(bootstrap_servers: str, topic: str, group: str) -> None:
    await write(bootstrap_servers, topic, 10)
    partition = TopicPartition(topic, 0)
    async with member(bootstrap_servers, group, topic) as consumer:
        assert await consumer.committed(partition) is None
        for _ in range(4):
            await consumer.getone()
        await consumer.commit()
        assert await consumer.committed(partition) == 4
        await consumer.commit({partition: OffsetAndMetadata(6, "by hand")})
    async with member(bootstrap_servers, group, topic) as consumer:
        assert (await consumer.getone()).offset == 6
        await consumer.seek_to_committed()
        assert await consumer.position(partition) == 6


@in_a_loop
async def test_commits_in_the_background_and_at_the_end(bootstrap_servers: str, topic: str, group: str) -> None:
    await write(bootstrap_servers, topic, 10)
    partition = TopicPartition(topic, 0)
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
    async with member(bootstrap_servers, group, topic, **settings) as consumer:
        for _ in range(3):
            await consumer.getone()
        await until(lambda: has_committed(consumer, partition, 3))
        await consumer.getone()
    async with member(bootstrap_servers, group, topic) as consumer:
        assert await consumer.committed(partition) == 4


@in_a_loop
async def test_commits_that_cannot_be_are_refused(bootstrap_servers: str, topic: str, group: str) -> None:
    partition = TopicPartition(topic, 0)
    async with member(bootstrap_servers, group, topic) as consumer:
        await until(lambda: consumer.assignment() == {partition})
        with pytest.raises(IllegalStateError):
            await consumer.commit({TopicPartition(topic, 7): 1})
        with pytest.raises((OffsetMetadataTooLargeError, CommitFailedError)):
            await consumer.commit({partition: (1, "x" * 5_000)})
        await consumer.commit({partition: (1, "x" * 4_096)})
        assert await consumer.committed(partition) == 1


@in_a_loop
async def test_offsets_are_committed_without_joining(bootstrap_servers: str, topic: str, group: str) -> None:
    await write(bootstrap_servers, topic, 3)
    partition = TopicPartition(topic, 0)
    async with member(bootstrap_servers, group) as consumer:
        consumer.assign([partition])
        assert (await consumer.getone()).offset == 0
        await consumer.commit()
    async with member(bootstrap_servers, group) as consumer:
        consumer.assign([partition])
        assert (await consumer.getone()).offset == 1


@in_a_loop
async def test_a_static_member_comes_back_to_its_partitions(
    bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=4)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(member(bootstrap_servers, group, topic, group_instance_id="one"))
        async with member(bootstrap_servers, group, topic, group_instance_id="two") as second:
            await until(share_all([first, second], 4))
            owned = first.assignment(), second.assignment()
        async with member(bootstrap_servers, group, topic, group_instance_id="two") as again:
            await until(lambda: again.assignment() == owned[1])
            assert first.assignment() == owned[0]


@in_a_loop
async def test_new_topics_reach_the_group(bootstrap_servers: str, unused_topic: Callable[[], str], group: str) -> None:
    stem = unused_topic()
    async with member(bootstrap_servers, group, metadata_max_age_ms=200) as consumer:
        consumer.subscribe(pattern=f"^{stem}.*")
        await write(bootstrap_servers, stem, 1)
        assert (await consumer.getone()).topic == stem
        await write(bootstrap_servers, f"{stem}-b", 1)
        await until(lambda: reads(consumer, f"{stem}-b"))


@in_a_loop
async def test_unsubscribing_leaves_and_subscribing_again_joins(
    bootstrap_servers: str, new_topic: NewTopic, group: str
) -> None:
    one, other = new_topic(), new_topic()
    await write(bootstrap_servers, one, 1)
    await write(bootstrap_servers, other, 1)
    async with member(bootstrap_servers, group, one) as consumer:
        assert (await consumer.getone()).topic == one
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        consumer.subscribe([other])
        assert (await consumer.getone()).topic == other


@in_a_loop
async def test_six_members_read_every_record_once(bootstrap_servers: str, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=6)
    await write(bootstrap_servers, topic, 600, partitions=6)
    async with AsyncExitStack() as stack:
        members = [await stack.enter_async_context(member(bootstrap_servers, group, topic)) for _ in range(6)]
        await until(share_all(members, 6))
        found: list[tuple[int, int]] = []

        async def drain(one: Any) -> None:
            while len(set(found)) < 600:
                for records in (await one.getmany(timeout_ms=100)).values():
                    found.extend((record.partition, record.offset) for record in records)
                await one.commit()

        await asyncio.gather(*(drain(one) for one in members))
    assert set(found) == {(partition, offset) for partition in range(6) for offset in range(100)}
