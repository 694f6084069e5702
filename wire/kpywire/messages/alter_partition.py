"""AlterPartition: API key 56."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, struct, uuid


@struct
class BrokerState:
    broker_id: i32  # The ID of the broker.
    broker_epoch: i64 = field(default=-1)  # The epoch of the broker. It will be -1 if the epoch check is not supported.


@struct
class AlterPartitionRequestPartitionData:
    partition_index: i32  # The partition index.
    leader_epoch: i32  # The leader epoch of this partition.
    new_isr: list[i32] = field("0-2", default=[])  # The ISR for this partition. Deprecated since version 3.
    new_isr_with_epochs: list[BrokerState] = field("3+", default=[])  # The ISR for this partition.
    # 1 if the partition is recovering from an unclean leader election; 0 otherwise.
    leader_recovery_state: i8 = field(default=0)
    partition_epoch: i32  # The expected epoch of the partition which is being updated.


@struct
class AlterPartitionRequestTopicData:
    topic_id: uuid  # The ID of the topic to alter ISRs for.
    partitions: list[AlterPartitionRequestPartitionData]  # The partitions to alter ISRs for.


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest:
    """Version 1 adds LeaderRecoveryState field (KIP-704).
    Version 2 adds TopicId field to replace TopicName field (KIP-841).
    Version 3 adds the NewIsrEpochs field and deprecates the NewIsr field (KIP-903).
    """

    broker_id: i32  # The ID of the requesting broker.
    broker_epoch: i64 = field(default=-1)  # The epoch of the requesting broker.
    topics: list[AlterPartitionRequestTopicData]  # The topics to alter ISRs for.


@struct
class AlterPartitionResponsePartitionData:
    partition_index: i32  # The partition index.
    error_code: i16  # The partition level error code.
    leader_id: i32  # The broker ID of the leader.
    leader_epoch: i32  # The leader epoch.
    isr: list[i32]  # The in-sync replica IDs.
    # 1 if the partition is recovering from an unclean leader election; 0 otherwise.
    leader_recovery_state: i8 = field(default=0)
    partition_epoch: i32  # The current epoch for the partition for KRaft controllers.


@struct
class AlterPartitionResponseTopicData:
    topic_id: uuid  # The ID of the topic.
    partitions: list[AlterPartitionResponsePartitionData]  # The responses for each partition.


@message(key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse:
    """Version 1 adds LeaderRecoveryState field (KIP-704).
    Version 2 adds TopicId field to replace TopicName field, can return the following new errors:
    INELIGIBLE_REPLICA, NEW_LEADER_ELECTED and UNKNOWN_TOPIC_ID (KIP-841).
    Version 3 is the same as version 2 (KIP-903).
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top level response error code.
    topics: list[AlterPartitionResponseTopicData]  # The responses for each topic.
