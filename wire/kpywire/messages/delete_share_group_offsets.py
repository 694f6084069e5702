"""DeleteShareGroupOffsets: API key 92."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, uuid


@struct
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: string  # The topic name.


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    group_id: string  # The group identifier.
    topics: list[DeleteShareGroupOffsetsRequestTopic]  # The topics to delete offsets for.


@struct
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: string  # The topic name.
    topic_id: uuid  # The unique topic ID.
    error_code: i16  # The topic-level error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The topic-level error message, or null if there was no error.


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
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
    - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top-level error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The top-level error message, or null if there was no error.
    responses: list[DeleteShareGroupOffsetsResponseTopic]  # The results for each topic.
