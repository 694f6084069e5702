"""CreateTopics: API key 19."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class CreatableReplicaAssignment:
    partition_index: i32  # The partition index.
    broker_ids: list[i32]  # The brokers to place the partition on.


@struct
class CreatableTopicConfig:
    name: string  # The configuration name.
    value: string | None  # The configuration value.


@struct
class CreatableTopic:
    name: string  # The topic name.
    # The number of partitions to create in the topic, or -1 if we are either specifying a manual partition assignment
    # or using the default partitions.
    num_partitions: i32
    # The number of replicas to create for each partition in the topic, or -1 if we are either specifying a manual
    # partition assignment or using the default replication factor.
    replication_factor: i16
    # The manual partition assignment, or the empty array if we are using automatic assignment.
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]  # The custom topic configurations to set.


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    """Version 1 adds validateOnly.
    Version 4 makes partitions/replicationFactor optional even when assignments are not present (KIP-464)
    Version 5 is the first flexible version.
    Version 5 also returns topic configs in the response (KIP-525).
    Version 6 is identical to version 5 but may return a THROTTLING_QUOTA_EXCEEDED error in the response if the
    topics creation is throttled (KIP-599).
    """

    topics: list[CreatableTopic]  # The topics to create.
    timeout_ms: i32 = field(default=60000)  # How long to wait in milliseconds before timing out the request.
    # If true, check that the topics can be created as specified, but don't create anything.
    validate_only: bool = field(default=False)


@struct
class CreatableTopicConfigs:
    name: string  # The configuration name.
    value: string | None  # The configuration value.
    read_only: bool  # True if the configuration is read-only.
    config_source: i8 = field(default=-1)  # The configuration source.
    is_sensitive: bool  # True if this configuration is sensitive.


@struct
class CreatableTopicResult:
    name: string  # The topic name.
    topic_id: uuid = field("7+", default=ZERO_UUID, ignorable=True)  # The unique topic ID.
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None  # The error message, or null if there was no error.
    # Optional topic config error returned if configs are not returned in the response.
    topic_config_error_code: i16 = field("5+", tag=0, default=0, ignorable=True)
    num_partitions: i32 = field("5+", default=-1, ignorable=True)  # Number of partitions of the topic.
    replication_factor: i16 = field("5+", default=-1, ignorable=True)  # Replication factor of the topic.
    configs: list[CreatableTopicConfigs] | None = field("5+", default=[], ignorable=True)  # Configuration of the topic.


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    """Version 1 adds a per-topic error message string.
    Version 2 adds the throttle time.
    Starting in version 3, on quota violation, brokers send out responses before throttling.
    Version 4 makes partitions/replicationFactor optional even when assignments are not present (KIP-464).
    Version 5 is the first flexible version.
    Version 5 also returns topic configs in the response (KIP-525).
    Version 6 is identical to version 5 but may return a THROTTLING_QUOTA_EXCEEDED error in the response if the
    topics creation is throttled (KIP-599).
    Version 7 returns the topic ID of the newly created topic if creation is successful.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    topics: list[CreatableTopicResult]  # Results for each topic we tried to create.
