"""OffsetFetch: API key 9."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class OffsetFetchRequestTopic:
    name: string  # The topic name.
    partition_indexes: list[i32]  # The partition indexes we would like to fetch offsets for.


@struct
class OffsetFetchRequestTopics:
    name: string = field("8-9", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)  # The topic ID.
    partition_indexes: list[i32]  # The partition indexes we would like to fetch offsets for.


@struct
class OffsetFetchRequestGroup:
    group_id: string  # The group ID.
    member_id: string | None = field("9+", default=None, ignorable=True)  # The member id.
    # The member epoch if using the new consumer protocol (KIP-848).
    member_epoch: i32 = field("9+", default=-1, ignorable=True)
    # Each topic we would like to fetch offsets for, or null to fetch offsets for all topics.
    topics: list[OffsetFetchRequestTopics] | None


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    """In version 0, the request read offsets from ZK.
    Starting in version 1, the broker supports fetching offsets from the internal __consumer_offsets topic.
    Starting in version 2, the request can contain a null topics array to indicate that offsets for all topics
    should be fetched. It also returns a top level error code for group or coordinator level errors.
    Version 6 is the first flexible version.
    Version 7 is adding the require stable flag.
    Version 8 is adding support for fetching offsets for multiple groups at a time.
    Version 9 is the first version that can be used with the new consumer group protocol (KIP-848). It adds the
    MemberId and MemberEpoch fields. Those are filled in and validated when the new consumer protocol is used.
    Version 10 adds support for topic ids and removes support for topic names (KIP-848).
    """

    group_id: string = field("0-7", default="")  # The group to fetch offsets for.
    # Each topic we would like to fetch offsets for, or null to fetch offsets for all topics.
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7", default=[])
    groups: list[OffsetFetchRequestGroup] = field("8+", default=[])  # Each group we would like to fetch offsets for.
    # Whether broker should hold on returning unstable offsets but set a retriable error code for the partitions.
    require_stable: bool = field("7+", default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: i32  # The partition index.
    committed_offset: i64  # The committed message offset.
    committed_leader_epoch: i32 = field("5-7", default=-1, ignorable=True)  # The leader epoch.
    metadata: string | None  # The partition metadata.
    error_code: i16  # The error code, or 0 if there was no error.


@struct
class OffsetFetchResponseTopic:
    name: string  # The topic name.
    partitions: list[OffsetFetchResponsePartition]  # The responses per partition.


@struct
class OffsetFetchResponsePartitions:
    partition_index: i32  # The partition index.
    committed_offset: i64  # The committed message offset.
    committed_leader_epoch: i32 = field(default=-1)  # The leader epoch.
    metadata: string | None  # The partition metadata.
    error_code: i16  # The partition-level error code, or 0 if there was no error.


@struct
class OffsetFetchResponseTopics:
    name: string = field("8-9", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)  # The topic ID.
    partitions: list[OffsetFetchResponsePartitions]  # The responses per partition.


@struct
class OffsetFetchResponseGroup:
    group_id: string  # The group ID.
    topics: list[OffsetFetchResponseTopics]  # The responses per topic.
    error_code: i16 = field(default=0)  # The group-level error code, or 0 if there was no error.


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    """Version 2 adds a top-level error code.
    Version 3 adds the throttle time.
    Starting in version 4, on quota violation, brokers send out responses before throttling.
    Version 5 adds the leader epoch to the committed offset.
    Version 6 is the first flexible version.
    Version 7 adds pending offset commit as new error response on partition level.
    Version 8 is adding support for fetching offsets for multiple groups
    Version 9 is the first version that can be used with the new consumer group protocol (KIP-848). The response
    is the same as version 8 but can return STALE_MEMBER_EPOCH and UNKNOWN_MEMBER_ID errors when the new consumer
    group protocol is used.
    Version 10 adds support for topic ids and removes support for topic names (KIP-848). It can return
    UNKNOWN_TOPIC_ID if topic IDs used and the topic is not found in metadata.
    Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - UNSTABLE_OFFSET_COMMIT (version 7+)
    - UNKNOWN_MEMBER_ID (version 9+)
    - STALE_MEMBER_EPOCH (version 9+)
    - UNKNOWN_TOPIC_ID (version 10+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7", default=[])  # The responses per topic.
    error_code: i16 = field("2-7", default=0, ignorable=True)  # The top-level error code, or 0 if there was no error.
    groups: list[OffsetFetchResponseGroup] = field("8+", default=[])  # The responses per group id.
