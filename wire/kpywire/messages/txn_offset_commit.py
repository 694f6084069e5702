"""TxnOffsetCommit: API key 28."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: i32  # The index of the partition within the topic.
    committed_offset: i64  # The message offset to be committed.
    # The leader epoch of the last consumed record.
    committed_leader_epoch: i32 = field("2+", default=-1, ignorable=True)
    committed_metadata: string | None  # Any associated metadata the client wants to keep.


@struct
class TxnOffsetCommitRequestTopic:
    name: string  # The topic name.
    # The partitions inside the topic that we want to commit offsets for.
    partitions: list[TxnOffsetCommitRequestPartition]


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """Version 2 adds the committed leader epoch.
    Version 3 adds the member.id, group.instance.id and generation.id.
    Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 5 is the same as version 4 (KIP-890). Note when TxnOffsetCommit requests are used in transaction, if
    transaction V2 (KIP_890 part 2) is enabled, the TxnOffsetCommit request will also include the function for a
    AddOffsetsToTxn call. If V2 is disabled, the client can't use TxnOffsetCommit request version higher than 4
    within a transaction.
    """

    transactional_id: string  # The ID of the transaction.
    group_id: string  # The ID of the group.
    producer_id: i64  # The current producer ID in use by the transactional ID.
    producer_epoch: i16  # The current epoch associated with the producer ID.
    generation_id: i32 = field("3+", default=-1)  # The generation of the consumer.
    member_id: string = field("3+", default="")  # The member ID assigned by the group coordinator.
    # The unique identifier of the consumer instance provided by end user.
    group_instance_id: string | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]  # Each topic that we want to commit offsets for.


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.


@struct
class TxnOffsetCommitResponseTopic:
    name: string  # The topic name.
    partitions: list[TxnOffsetCommitResponsePartition]  # The responses for each partition in the topic.


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 3 adds illegal generation, fenced instance id, and unknown member id errors.
    Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 5 is the same with version 3 (KIP-890).
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    topics: list[TxnOffsetCommitResponseTopic]  # The responses for each topic.
