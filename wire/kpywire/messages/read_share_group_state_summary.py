"""ReadShareGroupStateSummary: API key 87."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, uuid


@struct
class PartitionData:
    partition: i32  # The partition index.
    leader_epoch: i32  # The leader epoch of the share-partition.


@struct
class ReadStateSummaryData:
    topic_id: uuid  # The topic identifier.
    partitions: list[PartitionData]  # The data for the partitions.


@message(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    """Version 0 is the initial version (KIP-932).
    Version 1 introduces DeliveryCompleteCount in the response (KIP-1226).
    """

    group_id: string  # The group identifier.
    topics: list[ReadStateSummaryData]  # The data for the topics.


@struct
class PartitionResult:
    partition: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The error message, or null if there was no error.
    state_epoch: i32  # The state epoch of the share-partition.
    leader_epoch: i32  # The leader epoch of the share-partition.
    start_offset: i64  # The share-partition start offset.
    # The number of offsets greater than or equal to share-partition start offset for which delivery has been completed.
    delivery_complete_count: i32 = field("1+", default=-1, ignorable=True)


@struct
class ReadStateSummaryResult:
    topic_id: uuid  # The topic identifier.
    partitions: list[PartitionResult]  # The results for the partitions.


@message(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    """Version 0 is the initial version (KIP-932).
    Version 1 introduces DeliveryCompleteCount (KIP-1226).
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - GROUP_ID_NOT_FOUND (version 0+)
    - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
    - FENCED_LEADER_EPOCH (version 0+)
    - INVALID_REQUEST (version 0+)
    """

    results: list[ReadStateSummaryResult]  # The read results.
