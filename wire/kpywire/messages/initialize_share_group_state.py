"""InitializeShareGroupState: API key 83."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, uuid


@struct
class PartitionData:
    partition: i32  # The partition index.
    state_epoch: i32  # The state epoch for this share-partition.
    start_offset: i64  # The share-partition start offset, or -1 if the start offset is not being initialized.


@struct
class InitializeStateData:
    topic_id: uuid  # The topic identifier.
    partitions: list[PartitionData]  # The data for the partitions.


@message(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    group_id: string  # The group identifier.
    topics: list[InitializeStateData]  # The data for the topics.


@struct
class PartitionResult:
    partition: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The error message, or null if there was no error.


@struct
class InitializeStateResult:
    topic_id: uuid  # The topic identifier.
    partitions: list[PartitionResult]  # The results for the partitions.


@message(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    """- NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - FENCED_STATE_EPOCH (version 0+)
    - INVALID_REQUEST (version 0+)
    """

    results: list[InitializeStateResult]  # The initialization results.
