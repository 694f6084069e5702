"""The state of a cluster that no load touches: it must be the same before and after each replacement of a node."""

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.admin._config import ConfigSource
from confluent_kafka.cimpl import NewTopic

from support.access import Access

TOPIC: Final = "kept"
GROUP: Final = "keepers"
CONFIGS: Final = {"retention.ms": "86400000", "max.message.bytes": "900000", "min.insync.replicas": "2"}
PARTITIONS: Final = 4
RECORDS: Final = 100
PATIENCE_S: Final = 60.0


def lay_down(access: Access, replicas: int = 3) -> None:
    """A topic with configs and records of a committed and of an aborted transaction, and a group with offsets."""
    admin = AdminClient(access.librdkafka)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas, config=CONFIGS)])[TOPIC].result(PATIENCE_S)
    producer = Producer({**access.librdkafka, "transactional.id": TOPIC})
    producer.init_transactions(PATIENCE_S)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%d" % number, b"%d" % number, partition=number % PARTITIONS)
        end(PATIENCE_S)
    consumer = Consumer({**access.librdkafka, "group.id": GROUP, "enable.auto.commit": False})
    offsets = [TopicPartition(TOPIC, index, index + 1) for index in range(PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def seen(access: Access, *, with_security: bool) -> Mapping[str, Any]:
    """The state that clients see."""
    admin = AdminClient(access.librdkafka)
    topic = admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC]
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    configs = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
    (offsets,) = [future.result(PATIENCE_S) for future in asked.values()]
    found = {
        "replicas": {index: sorted(each.replicas) for index, each in topic.partitions.items()},
        "configs": {
            name: entry.value
            for name, entry in configs.items()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        },
        "offsets": sorted((each.partition, each.offset) for each in offsets.topic_partitions),
        "records": records(access),
    }
    if with_security:
        everything = AclBindingFilter(
            *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
        )
        acls = admin.describe_acls(everything).result(PATIENCE_S)
        users = admin.describe_user_scram_credentials().result(PATIENCE_S)
        found["acls"] = sorted(str(each) for each in acls)
        found["users"] = {
            name: sorted((str(each.mechanism), each.iterations) for each in described.scram_credential_infos)
            for name, described in users.items()
        }
    return found


def records(access: Access) -> list[tuple[int, int, bytes | None]]:
    """Partition, offset and value of all committed records of the topic."""
    consumer = Consumer({**access.librdkafka, "group.id": "judge", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found: list[tuple[int, int, bytes | None]] = []
    try:
        while len(found) < RECORDS:
            messages = consumer.consume(RECORDS, PATIENCE_S)
            if not messages:
                raise TimeoutError(f"{TOPIC} has {len(found)} committed records, not {RECORDS}")
            for message in messages:
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    found.append((partition, offset, message.value()))
    finally:
        consumer.close()
    return sorted(found)
