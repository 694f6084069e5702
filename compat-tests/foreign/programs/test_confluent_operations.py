"""confluent-kafka's admin client on groups, offsets and topics at large; test_confluent_admin.py asks it the rest."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from conftest import NewTopic
from support.waiting import becomes

PATIENCE_S = 30.0
requests: Any = confluent_kafka.admin


def one(answers: dict[Any, Any]) -> Any:
    """The result of the only future in an answer."""
    (future,) = answers.values()
    return future.result(PATIENCE_S)


@pytest.fixture
def group() -> str:
    return f"operated-{secrets.token_hex(4)}"


@pytest.fixture
def reading(bootstrap_servers: str, topic: str, group: str) -> Iterator[Any]:
    """A member of the group that has read three records of the topic and committed two."""
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for _ in range(3):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "client.id": "the-reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(3, PATIENCE_S)) == 3
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    yield consumer
    consumer.close()


def test_groups_are_listed_and_described(admin: AdminClient, reading: Any, group: str, topic: str) -> None:
    listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(PATIENCE_S)
    assert group in [found.group_id for found in listed.valid]
    described = one(admin.describe_consumer_groups([group]))
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    (member,) = described.members
    assert member.client_id == "the-reader"
    assert member.assignment.topic_partitions == [TopicPartition(topic, 0)]
    assert [found.partition for found in reading.assignment()] == [0]


def test_offsets_are_listed_altered_and_go_with_the_group(
    admin: AdminClient, reading: Any, group: str, topic: str
) -> None:
    def offsets() -> dict[int, int]:
        listed = one(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {found.partition: found.offset for found in listed.topic_partitions if found.topic == topic}

    assert offsets() == {0: 2}
    wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])]
    (refused,) = one(admin.alter_consumer_group_offsets(wanted)).topic_partitions
    assert refused.error.code() == KafkaError.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaException) as refusal:
        one(admin.delete_consumer_groups([group]))
    assert refusal.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    reading.close()
    one(admin.alter_consumer_group_offsets(wanted))
    assert offsets() == {0: 1}
    one(admin.delete_consumer_groups([group]))
    assert offsets() == {}
    with pytest.raises(KafkaException) as refusal:
        one(admin.delete_consumer_groups([group]))
    assert refusal.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND


def test_a_group_that_is_none_is_dead(admin: AdminClient, group: str) -> None:
    assert one(admin.describe_consumer_groups([group])).state == ConsumerGroupState.DEAD


def test_topics_are_described_with_ids_and_replicas(admin: AdminClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    described = one(admin.describe_topics(TopicCollection([topic])))
    assert (described.name, described.is_internal, len(described.partitions)) == (topic, False, 3)
    assert str(described.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")
    assert {partition.leader.id for partition in described.partitions} == {
        replica.id for partition in described.partitions for replica in partition.replicas
    }


def test_configs_are_appended_to_and_subtracted_from(admin: AdminClient, topic: str) -> None:
    def change(operation: Any, value: str | None) -> None:
        entry = requests.ConfigEntry("cleanup.policy", value, incremental_operation=operation)
        one(admin.incremental_alter_configs([requests.ConfigResource("topic", topic, incremental_configs=[entry])]))

    def policy() -> str:
        return str(one(admin.describe_configs([requests.ConfigResource("topic", topic)]))["cleanup.policy"].value)

    change(requests.AlterConfigOpType.APPEND, "compact")
    becomes(lambda: set(policy().split(",")), {"delete", "compact"})
    change(requests.AlterConfigOpType.SUBTRACT, "delete")
    becomes(policy, "compact")
    change(requests.AlterConfigOpType.DELETE, None)
    becomes(policy, "delete")


def test_a_brokers_configs_are_changed_while_it_runs(admin: AdminClient) -> None:
    (broker,) = admin.list_topics(timeout=PATIENCE_S).brokers

    def set_to(operation: Any, value: str | None) -> None:
        entry = requests.ConfigEntry("log.retention.ms", value, incremental_operation=operation)
        resource = requests.ConfigResource("broker", str(broker), incremental_configs=[entry])
        one(admin.incremental_alter_configs([resource]))

    def seen() -> str | None:
        found = one(admin.describe_configs([requests.ConfigResource("broker", str(broker))]))["log.retention.ms"].value
        return None if found is None else str(found)

    before = seen()
    set_to(requests.AlterConfigOpType.SET, "7777777")
    becomes(seen, "7777777")
    set_to(requests.AlterConfigOpType.DELETE, None)
    becomes(seen, before)


def test_many_topics_in_one_request(admin: AdminClient, unused_topic: Callable[[], str]) -> None:
    names = [unused_topic() for _ in range(20)]
    answers = admin.create_topics([requests.NewTopic(name, 2, 1) for name in names])
    assert [answers[name].result(PATIENCE_S) for name in names] == [None] * 20
    answers = admin.create_partitions([requests.NewPartitions(name, 4) for name in names])
    assert [answers[name].result(PATIENCE_S) for name in names] == [None] * 20
    answers = admin.delete_topics(names)
    assert [answers[name].result(PATIENCE_S) for name in names] == [None] * 20


def test_records_are_deleted_up_to_an_offset_and_to_the_end(admin: AdminClient, reading: Any, topic: str) -> None:
    assert reading.assignment()
    assert one(admin.delete_records([TopicPartition(topic, 0, 1)])).low_watermark == 1
    assert one(admin.delete_records([TopicPartition(topic, 0, confluent_kafka.OFFSET_END)])).low_watermark == 3
    with pytest.raises(KafkaException) as refusal:
        one(admin.delete_records([TopicPartition(topic, 0, 99)]))
    assert refusal.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE
