"""The requests that several of the raw suites send, and what they need around them."""

import time
from collections.abc import Mapping, Sequence

from kpywire import api, error_codes
from kpywire.messages import alter_configs as legacy
from kpywire.messages import incremental_alter_configs as incremental
from kpywire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from kpywire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.waiting import becomes, eventually

NO_ID = bytes(16)
UNKNOWN_ID = bytes(range(16))
NOT_ASKED = -(2**31)
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
INVALID_NAMES = {
    "": "the empty string is not allowed",
    ".": "'.' is not allowed",
    "..": "'..' is not allowed",
    "a b": "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
    "ä": "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
    "a\0b": "'a\0b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
    "x" * 250: f"the length of '{'x' * 250}' is longer than the max allowed length 249",
}
"""Names that no topic can have, and Kafka's reasons."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch_of(*timestamps: int, size: int = 1, key: bytes | None = None, codec: int = 0) -> bytes:
    """One record for each timestamp."""
    return build_batch([Record(timestamp=at, key=key, value=bytes(size)) for at in timestamps], codec=codec)


def produce(
    raw: RawClient, topic: str, records: bytes, *, partition: int = 0, acks: int = -1
) -> PartitionProduceResponse:
    """Send one batch, whatever comes of it."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    response = raw.call(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data]), 9)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


def append(raw: RawClient, topic: str, *timestamps: int, codec: int = 0, partition: int = 0) -> int:
    """Append one batch; its base offset."""
    answer = produce(raw, topic, batch_of(*timestamps, codec=codec), partition=partition)
    assert answer.error_code == error_codes.NONE, answer
    return int(answer.base_offset)


def list_offsets(
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    isolation: int = 0,
    leader_epoch: int = -1,
    replica_id: int = -1,
    timeout_ms: int = 0,
) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch)
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
        timeout_ms=timeout_ms,
    )


def offset_at(
    raw: RawClient, topic: str, timestamp: int, version: int | None = None, **fields: int
) -> tuple[int, int, int, int]:
    """(error, timestamp, offset, leader epoch) of what ListOffsets finds. Without ``version`` in the newest served."""
    if version is None:
        version = 11 if raw.newest is None else raw.newest[api.LIST_OFFSETS]
    (answer,) = raw.call(list_offsets(topic, timestamp, **fields), version).topics
    (found,) = answer.partitions
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


def metadata(*names: str, create: bool = False, **flags: bool) -> MetadataRequest:
    wanted = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=create, **flags)


def metadata_of(raw: RawClient, topic: str) -> MetadataResponseTopic:
    """The part of Metadata about one topic; it is not created."""
    (found,) = raw.call(metadata(topic), 12).topics
    answer: MetadataResponseTopic = found
    return answer


def topic_named(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in assignments
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def creation(*topics: CreatableTopic, validate_only: bool = False, timeout_ms: int = 30_000) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)


def deletion(*names: str, ids: Sequence[bytes] = (), version: int = 6) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=list(names), timeout_ms=30_000)
    wanted = [DeleteTopicState(name=name) for name in names]
    wanted += [DeleteTopicState(name=None, topic_id=topic_id) for topic_id in ids]
    return DeleteTopicsRequest(topics=wanted, timeout_ms=30_000)


def create(raw: RawClient, name: str, partitions: int = 1, **configs: str) -> bytes:
    """Create a topic with nothing but these configs (``_`` for ``.``), wait until it is led; its id."""
    named: dict[str, str | None] = {key.replace("_", "."): value for key, value in configs.items()}

    def created() -> CreatableTopicResult | None:
        (answer,) = raw.call(creation(topic_named(name, partitions, configs=named)), 7).topics
        result: CreatableTopicResult = answer
        # in ZooKeeper mode, a name that was deleted is free when all replicas are gone
        return None if (result.error_message or "").endswith("is marked for deletion.") else result

    answer = eventually(created, f"the name {name} to be free")
    assert answer.error_code == error_codes.NONE, answer
    wait_until_led(raw, name, partitions)
    topic_id: bytes = answer.topic_id
    return topic_id


def wait_until_led(raw: RawClient, name: str, partitions: int = 1) -> None:
    for index in range(partitions):
        eventually(
            lambda index=index: offset_at(raw, name, -1, partition=index)[0] == error_codes.NONE,
            f"a leader of {name}-{index}",
        )


def wait_until_gone(raw: RawClient, name: str) -> None:
    eventually(
        lambda: metadata_of(raw, name).error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"the end of {name}"
    )


def describe_configs(
    kind: int, name: str, keys: Sequence[str] | None = None, *, synonyms: bool = False, documentation: bool = False
) -> DescribeConfigsRequest:
    wanted = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
    )
    return DescribeConfigsRequest(resources=[wanted], include_synonyms=synonyms, include_documentation=documentation)


def described(
    raw: RawClient, kind: int, name: str, version: int = 4, **how: bool
) -> dict[str, DescribeConfigsResourceResult]:
    """All configs of one resource, by name."""
    (result,) = raw.call(describe_configs(kind, name, **how), version).results
    assert (result.error_code, result.error_message) == (error_codes.NONE, "")
    return {config.name: config for config in result.configs}


def configs_set(raw: RawClient, kind: int, name: str) -> dict[str, str | None]:
    """The configs that are set on exactly this resource, not what it inherits."""
    source = {TOPIC: 1, BROKER: 2 if name else 3, CLIENT_METRICS: 7, GROUP: 8}[kind]
    every = described(raw, kind, name).values()
    return {config.name: config.value for config in every if config.config_source == source}


def configs_become(raw: RawClient, kind: int, name: str, expected: Mapping[str, str | None]) -> None:
    """Asserts what is set on a resource, soon: brokers learn of a change after it was answered."""
    becomes(lambda: configs_set(raw, kind, name), expected)


Operations = Sequence[tuple[str, int, str | None]]


def incremental_alteration(
    *resources: tuple[int, str, Operations], validate_only: bool = False
) -> incremental.IncrementalAlterConfigsRequest:
    """Operations, (config, operation, value), on resources."""
    wanted = [
        incremental.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in operations
            ],
        )
        for kind, name, operations in resources
    ]
    return incremental.IncrementalAlterConfigsRequest(resources=wanted, validate_only=validate_only)


def alteration(
    *resources: tuple[int, str, Mapping[str, str | None]], validate_only: bool = False
) -> legacy.AlterConfigsRequest:
    """All the configs that resources are to have."""
    wanted = [
        legacy.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[legacy.AlterableConfig(name=key, value=value) for key, value in configs.items()],
        )
        for kind, name, configs in resources
    ]
    return legacy.AlterConfigsRequest(resources=wanted, validate_only=validate_only)


def changed(
    raw: RawClient, request: legacy.AlterConfigsRequest | incremental.IncrementalAlterConfigsRequest, version: int
) -> dict[tuple[int, str], tuple[int, str | None]]:
    """(code, message) of each resource that was to change."""
    responses = raw.call(request, version).responses
    return {
        (answer.resource_type, answer.resource_name): (answer.error_code, answer.error_message) for answer in responses
    }
