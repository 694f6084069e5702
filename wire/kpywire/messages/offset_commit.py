"""OffsetCommit: API key 8."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class OffsetCommitRequestPartition:
    partition_index: i32  # The partition index.
    committed_offset: i64  # The message offset to be committed.
    committed_leader_epoch: i32 = field("6+", default=-1, ignorable=True)  # The leader epoch of this partition.
    committed_metadata: string | None  # Any associated metadata the client wants to keep.


@struct
class OffsetCommitRequestTopic:
    name: string = field("0-9", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)  # The topic ID.
    partitions: list[OffsetCommitRequestPartition]  # Each partition to commit offsets for.


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    """Version 1 adds timestamp and group membership information, as well as the commit timestamp.
    Version 2 adds retention time. It removes the commit timestamp added in version 1.
    Version 5 removes the retention time, which is now controlled only by a broker configuration.
    Version 6 adds the leader epoch for fencing.
    version 7 adds a new field called groupInstanceId to indicate member identity across restarts.
    Version 8 is the first flexible version.
    Version 9 is the first version that can be used with the new consumer group protocol (KIP-848).
    Version 10 adds support for topic ids and removes support for topic names (KIP-848).
    """

    group_id: string  # The unique group identifier.
    # The generation of the group if using the classic group protocol or the member epoch if using the consumer
    # protocol.
    generation_id_or_member_epoch: i32 = field(default=-1)
    member_id: string  # The member ID assigned by the group coordinator.
    # The unique identifier of the consumer instance provided by end user.
    group_instance_id: string | None = field("7+", default=None)
    retention_time_ms: i64 = field("2-4", default=-1, ignorable=True)  # The time period in ms to retain the offset.
    topics: list[OffsetCommitRequestTopic]  # The topics to commit offsets for.


@struct
class OffsetCommitResponsePartition:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.


@struct
class OffsetCommitResponseTopic:
    name: string = field("0-9", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)  # The topic ID.
    partitions: list[OffsetCommitResponsePartition]  # The responses for each partition in the topic.


@message(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    """Version 3 adds the throttle time to the response.
    Starting in version 4, on quota violation, brokers send out responses before throttling.
    Version 7 offsetCommitRequest supports a new field called groupInstanceId to indicate member identity across
    restarts.
    Version 8 is the first flexible version.
    Version 9 is the first version that can be used with the new consumer group protocol (KIP-848). The response
    is the same as version 8 but can return STALE_MEMBER_EPOCH when the new consumer group protocol is used and
    GROUP_ID_NOT_FOUND when the group does not exist for both protocols.
    Version 10 adds support for topic ids and removes support for topic names (KIP-848).
    Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - ILLEGAL_GENERATION (version 1+)
    - UNKNOWN_MEMBER_ID (version 1+)
    - INVALID_COMMIT_OFFSET_SIZE (version 0+)
    - FENCED_MEMBER_EPOCH (version 7+)
    - GROUP_ID_NOT_FOUND (version 9+)
    - STALE_MEMBER_EPOCH (version 9+)
    - UNKNOWN_TOPIC_ID (version 10+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]  # The responses for each topic.
