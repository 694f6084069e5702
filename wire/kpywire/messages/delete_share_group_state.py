"""DeleteShareGroupState: API key 86."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, uuid


@struct
class PartitionData:
    partition: i32  # The partition index.


@struct
class DeleteStateData:
    topic_id: uuid  # The topic identifier.
    partitions: list[PartitionData]  # The data for the partitions.


@message(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    group_id: string  # The group identifier.
    topics: list[DeleteStateData]  # The data for the topics.


@struct
class PartitionResult:
    partition: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The error message, or null if there was no error.


@struct
class DeleteStateResult:
    topic_id: uuid  # The topic identifier.
    partitions: list[PartitionResult]  # The results for the partitions.


@message(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    """- NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
    - FENCED_STATE_EPOCH (version 0+)
    - INVALID_REQUEST (version 0+)
    """

    results: list[DeleteStateResult]  # The delete results.
