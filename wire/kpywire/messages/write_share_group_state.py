"""WriteShareGroupState: API key 85."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, string, struct, uuid


@struct
class StateBatch:
    first_offset: i64  # The first offset of this state batch.
    last_offset: i64  # The last offset of this state batch.
    delivery_state: i8  # The delivery state - 0:Available,2:Acked,4:Archived.
    delivery_count: i16  # The delivery count.


@struct
class PartitionData:
    partition: i32  # The partition index.
    state_epoch: i32  # The state epoch of the share-partition.
    leader_epoch: i32  # The leader epoch of the share-partition.
    start_offset: i64  # The share-partition start offset, or -1 if the start offset is not being written.
    # The number of offsets greater than or equal to share-partition start offset for which delivery has been completed.
    delivery_complete_count: i32 = field("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch]  # The state batches for the share-partition.


@struct
class WriteStateData:
    topic_id: uuid  # The topic identifier.
    partitions: list[PartitionData]  # The data for the partitions.


@message(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    """Version 0 is the initial version (KIP-932).
    Version 1 introduces DeliveryCompleteCount (KIP-1226).
    """

    group_id: string  # The group identifier.
    topics: list[WriteStateData]  # The data for the topics.


@struct
class PartitionResult:
    partition: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The error message, or null if there was no error.


@struct
class WriteStateResult:
    topic_id: uuid  # The topic identifier.
    partitions: list[PartitionResult]  # The results for the partitions.


@message(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    """Version 0 is the initial version (KIP-932).
    Version 1 introduces DeliveryCompleteCount in the request (KIP-1226).
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
    - FENCED_LEADER_EPOCH (version 0+)
    - FENCED_STATE_EPOCH (version 0+)
    - INVALID_REQUEST (version 0+)
    """

    results: list[WriteStateResult]  # The write results.
