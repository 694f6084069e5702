"""aiokafka's admin client: topics, configs, partitions, groups, records, the cluster."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError, UnknownTopicOrPartitionError

from foreign.in_a_loop import in_a_loop


@asynccontextmanager
async def administering(bootstrap_servers: str) -> AsyncIterator[Any]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def topic_errors(response: Any) -> list[int]:
    """The error codes of CreateTopics, DeleteTopics or CreatePartitions."""
    rows = next(value for name, value in vars(response).items() if name.startswith("topic_error"))
    return [row[1] for row in rows]


@in_a_loop
async def test_topics_come_and_go(bootstrap_servers: str, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    async with administering(bootstrap_servers) as admin:
        new = NewTopic(name, 3, 1, topic_configs={"retention.ms": "60000"})
        assert topic_errors(await admin.create_topics([new], validate_only=True)) == [0]
        assert name not in await admin.list_topics()
        assert topic_errors(await admin.create_topics([new])) == [0]
        assert topic_errors(await admin.create_topics([new])) == [36]
        (described,) = await admin.describe_topics([name])
        assert (described["topic"], len(described["partitions"])) == (name, 3)
        assert topic_errors(await admin.delete_topics([name])) == [0]
        assert topic_errors(await admin.delete_topics([name])) == [3]


@in_a_loop
async def test_partitions_are_added(bootstrap_servers: str, topic: str) -> None:
    async with administering(bootstrap_servers) as admin:
        assert topic_errors(await admin.create_partitions({topic: NewPartitions(4)})) == [0]
        with pytest.raises(InvalidPartitionsError):
            await admin.create_partitions({topic: NewPartitions(2)})
        (described,) = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 4


@in_a_loop
async def test_configs_are_described_and_replaced(bootstrap_servers: str, topic: str) -> None:
    def named(answers: Any) -> dict[str, str]:
        (answer,) = answers
        (resource,) = answer.resources
        assert resource[0] == 0
        return {entry[0]: entry[1] for entry in resource[4]}

    async with administering(bootstrap_servers) as admin:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "12345"})
        (answer,) = await admin.alter_configs([wanted])
        assert answer.resources[0][0] == 0
        described = named(await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        assert described["max.message.bytes"] == "12345"
        assert described["cleanup.policy"] == "delete"
        bad = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "many"})
        (answer,) = await admin.alter_configs([bad])
        assert answer.resources[0][0] == 40


@in_a_loop
async def test_the_cluster_is_described(bootstrap_servers: str) -> None:
    async with administering(bootstrap_servers) as admin:
        cluster = await admin.describe_cluster()
    (broker,) = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap_servers
    assert cluster["controller_id"] == broker["node_id"]


@in_a_loop
async def test_groups_are_listed_described_and_their_offsets_read(bootstrap_servers: str, topic: str) -> None:
    group = f"aiokafka-admin-{secrets.token_hex(4)}"
    partition = TopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        await producer.send_and_wait(topic, b"x")
    async with administering(bootstrap_servers) as admin:
        reader = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap_servers, group_id=group, auto_offset_reset="earliest"
        )
        async with reader:
            await reader.getone()
            await reader.commit()
            assert (group, "consumer") in [tuple(row[:2]) for row in await admin.list_consumer_groups()]
            assert await admin.find_coordinator(group) in [
                broker["node_id"] for broker in (await admin.describe_cluster())["brokers"]
            ]
            (answer,) = await admin.describe_consumer_groups([group])
            ((error, name, state, kind, _, members, *_),) = answer.groups
            assert (error, name, state, kind, len(members)) == (0, group, "Stable", "consumer", 1)
        offsets = await admin.list_consumer_group_offsets(group)
        assert {key: value.offset for key, value in offsets.items()} == {partition: 1}


@in_a_loop
async def test_records_are_deleted(bootstrap_servers: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        for _ in range(5):
            await producer.send_and_wait(topic, b"x")
    async with administering(bootstrap_servers) as admin:
        assert await admin.delete_records({partition: RecordsToDelete(3)}) == {partition: 3}
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        assert (await consumer.getone()).offset == 3
        assert await consumer.beginning_offsets([partition]) == {partition: 3}


@in_a_loop
async def test_missing_topics_groups_and_offsets_are_reported_as_errors(
    bootstrap_servers: str, unused_topic: Callable[[], str]
) -> None:
    async with administering(bootstrap_servers) as admin:
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.create_partitions({unused_topic(): NewPartitions(4)})
        (answer,) = await admin.describe_consumer_groups([f"nobody-{secrets.token_hex(4)}"])
        assert answer.groups[0][2] in ("Dead", "")
        with pytest.raises(Exception, match=r"(?i)unknown|offset|partition"):
            await admin.delete_records({TopicPartition(unused_topic(), 0): RecordsToDelete(0)})
