"""TxnOffsetCommit: API key 28."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: i32  # The index of the partition within the topic.
    committed_offset: i64  # The message offset to be committed.
    # The leader epoch of the last consumed record.
    committed_leader_epoch: i32 = field("2+", default=-1, ignorable=True)
    committed_metadata: string | None  # Any associated metadata the client wants to keep.


@struct
class TxnOffsetCommitRequestTopic:
    name: string = field("0-5", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("6+", default=ZERO_UUID, ignorable=True)  # The topic ID.
    # The partitions inside the topic that we want to commit offsets for.
    partitions: list[TxnOffsetCommitRequestPartition]


@message(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest:
    """Version 2 adds the committed leader epoch.
    Version 3 adds the member.id, group.instance.id and generation.id.
    Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 5 is the same as version 4 (KIP-890). Note when TxnOffsetCommit requests are used in transaction, if
    transaction V2 (KIP_890 part 2) is enabled, the TxnOffsetCommit request will also include the function for a
    AddOffsetsToTxn call. If V2 is disabled, the client can't use TxnOffsetCommit request version higher than 4
    within a transaction.
    Version 6 adds support for topic IDs and removes support for topic names (KIP-1319).
    """

    transactional_id: string  # The ID of the transaction.
    group_id: string  # The ID of the group.
    producer_id: i64  # The current producer ID in use by the transactional ID.
    producer_epoch: i16  # The current epoch associated with the producer ID.
    # The generation of the group if using the classic group protocol or the member epoch if using the consumer
    # protocol.
    generation_id_or_member_epoch: i32 = field("3+", default=-1)
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
    name: string = field("0-5", default="", ignorable=True)  # The topic name.
    topic_id: uuid = field("6+", default=ZERO_UUID, ignorable=True)  # The topic ID.
    partitions: list[TxnOffsetCommitResponsePartition]  # The responses for each partition in the topic.


@message(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 3 adds illegal generation, fenced instance id, and unknown member id errors.
    Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
    Version 5 is the same with version 3 (KIP-890).
    Version 6 adds support for topic IDs and removes support for topic names. It can also return
    GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH and UNKNOWN_TOPIC_ID (KIP-1319).
    Supported errors:
    - GROUP_AUTHORIZATION_FAILED (version 0+)
    - TOPIC_AUTHORIZATION_FAILED (version 0+)
    - NOT_COORDINATOR (version 0+)
    - COORDINATOR_NOT_AVAILABLE (version 0+)
    - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
    - TRANSACTIONAL_ID_AUTHORIZATION_FAILED (version 0+)
    - INVALID_PRODUCER_ID_MAPPING (version 0+)
    - INVALID_PRODUCER_EPOCH (version 0+)
    - PRODUCER_FENCED (version 0+)
    - INVALID_TXN_STATE (version 0+)
    - UNSUPPORTED_FOR_MESSAGE_FORMAT (version 0+)
    - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
    - OFFSET_METADATA_TOO_LARGE (version 0+)
    - ILLEGAL_GENERATION (version 3+)
    - UNKNOWN_MEMBER_ID (version 3+)
    - FENCED_INSTANCE_ID (version 3+)
    - TRANSACTION_ABORTABLE (version 4+)
    - GROUP_ID_NOT_FOUND (version 6+)
    - STALE_MEMBER_EPOCH (version 6+)
    - UNKNOWN_TOPIC_ID (version 6+)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    topics: list[TxnOffsetCommitResponseTopic]  # The responses for each topic.
