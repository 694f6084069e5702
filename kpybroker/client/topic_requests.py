"""The requests of ``kpybroker topics``: one function each, errors raised as KafkaError."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot, raise_for
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kpywire.uuid import ZERO_UUID

TOPIC_RESOURCE = 2
TOPIC_CONFIG_SOURCE = 1
SET, DELETE = 0, 1
TIMEOUT_MS = 30_000
VISIBLE_WITHIN_S = 10.0


class PartitionOffsets(NamedTuple):
    """A partition with the offsets of its log; None where no leader reported them."""

    metadata: MetadataResponsePartition
    start_offset: int | None
    end_offset: int | None


class Description(NamedTuple):
    """The description of a topic. ``configs`` are those set on the topic itself."""

    topic: MetadataResponseTopic
    configs: dict[str, str | None]
    partitions: list[PartitionOffsets]


def create(client: Client, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
    """Create a topic (-1: the broker's default) and return when it has leaders. Raises KafkaError."""
    overrides = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=overrides
    )
    for answer in client.call(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), wait_s=30).topics:
        raise_for(answer.error_code, f"cannot create {name}", answer.error_message)
    client.retrying(lambda: _leaders(client, name), VISIBLE_WITHIN_S)


def _leaders(client: Client, name: str) -> None:
    for partition in client.topic(name).partitions:
        client.leader(Spot(name, partition.partition_index))


def delete(client: Client, name: str) -> None:
    """Delete a topic. Raises KafkaError."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], topic_names=[name], timeout_ms=TIMEOUT_MS
    )
    for answer in client.call(request, wait_s=30).responses:
        raise_for(answer.error_code, f"topic {name}", answer.error_message)


def add_partitions(client: Client, name: str, count: int) -> None:
    """Raise the number of partitions to ``count``. Raises KafkaError."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    for answer in client.call(
        CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False), wait_s=30
    ).results:
        raise_for(answer.error_code, f"topic {name}", answer.error_message)


def alter_configs(client: Client, name: str, changes: Mapping[str, str | None]) -> None:
    """Set configs, or with None reset them to their defaults. Raises KafkaError."""
    operations = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=operations)
    for answer in client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)).responses:
        raise_for(answer.error_code, f"topic {name}", answer.error_message)


def existing(client: Client, names: Iterable[str] = ()) -> list[MetadataResponseTopic]:
    """All topics, or those with the given names, by name. Raises KafkaError for one that does not exist."""
    wanted = list(names)
    topics = client.topics(wanted or None)
    for topic in topics:
        if wanted:
            raise_for(topic.error_code, f"topic {topic.name}")
        topic.partitions.sort(key=lambda each: each.partition_index)
    return sorted(topics, key=lambda each: each.name or "")


def replicas_of(topic: MetadataResponseTopic) -> int:
    """The largest number of replicas that a partition of this topic has."""
    return max((len(each.replica_nodes) for each in topic.partitions), default=0)


def describe(client: Client, name: str) -> Description:
    """Describe a topic. Raises KafkaError."""
    topic = client.topic(name)
    return Description(topic, _configs(client, name), _offsets(client, name, topic.partitions))


def _configs(client: Client, name: str) -> dict[str, str | None]:
    resource = DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
    (answer,) = client.call(DescribeConfigsRequest(resources=[resource])).results
    raise_for(answer.error_code, f"topic {name}", answer.error_message)
    return {each.name: each.value for each in answer.configs if each.config_source == TOPIC_CONFIG_SOURCE}


def _offsets(client: Client, name: str, partitions: list[MetadataResponsePartition]) -> list[PartitionOffsets]:
    led = [Spot(name, each.partition_index) for each in partitions if each.leader_id >= 0]
    starts = client.list_offsets(dict.fromkeys(led, EARLIEST_TIMESTAMP))
    ends = client.list_offsets(dict.fromkeys(led, LATEST_TIMESTAMP))
    spots = {each.partition_index: Spot(name, each.partition_index) for each in partitions}
    return [
        PartitionOffsets(each, starts.get(spots[each.partition_index]), ends.get(spots[each.partition_index]))
        for each in partitions
    ]


def is_unknown(error: KafkaError) -> bool:
    return error.code == error_codes.UNKNOWN_TOPIC_OR_PARTITION


def exists_already(error: KafkaError) -> bool:
    return error.code == error_codes.TOPIC_ALREADY_EXISTS
