"""AlterShareGroupOffsets: API key 91."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, uuid


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: i32  # The partition index.
    start_offset: i64  # The share-partition start offset.


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: string  # The topic name.
    partitions: list[AlterShareGroupOffsetsRequestPartition]  # Each partition to alter offsets for.


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    group_id: string  # The group identifier.
    topics: list[AlterShareGroupOffsetsRequestTopic]  # The topics to alter offsets for.


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The error message, or null if there was no error.


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: string  # The topic name.
    topic_id: uuid  # The unique topic ID.
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    """Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - TOPIC_AUTHORIZATION_FAILED (version 0+)
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - NON_EMPTY_GROUP (version 0+)
    - KAFKA_STORAGE_ERROR (version 0+)
    - INVALID_REQUEST (version 0+)
    - UNKNOWN_SERVER_ERROR (version 0+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top-level error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The top-level error message, or null if there was no error.
    responses: list[AlterShareGroupOffsetsResponseTopic]  # The results for each topic.
