"""LeaderAndIsr: API key 4."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class LeaderAndIsrPartitionState:
    topic_name: string = field("0-1", default="", ignorable=True)  # The topic name. This is only present in v0 or v1.
    partition_index: i32  # The partition index.
    controller_epoch: i32  # The controller epoch.
    leader: i32  # The broker ID of the leader.
    leader_epoch: i32  # The leader epoch.
    isr: list[i32]  # The in-sync replica IDs.
    # The current epoch for the partition. The epoch is a monotonically increasing value which is incremented after
    # every partition change. (Since the LeaderAndIsr request is only used by the legacy controller, this corresponds to
    # the zkVersion)
    partition_epoch: i32
    replicas: list[i32]  # The replica IDs.
    # The replica IDs that we are adding this partition to, or null if no replicas are being added.
    adding_replicas: list[i32] = field("3+", default=[], ignorable=True)
    # The replica IDs that we are removing this partition from, or null if no replicas are being removed.
    removing_replicas: list[i32] = field("3+", default=[], ignorable=True)
    # Whether the replica should have existed on the broker or not.
    is_new: bool = field("1+", default=False, ignorable=True)
    # 1 if the partition is recovering from an unclean leader election; 0 otherwise.
    leader_recovery_state: i8 = field("6+", default=0)


@struct
class LeaderAndIsrTopicState:
    topic_name: string  # The topic name.
    topic_id: uuid = field("5+", default=ZERO_UUID, ignorable=True)  # The unique topic ID.
    partition_states: list[LeaderAndIsrPartitionState]  # The state of each partition


@struct
class LeaderAndIsrLiveLeader:
    broker_id: i32  # The leader's broker ID.
    host_name: string  # The leader's hostname.
    port: i32  # The leader's port.


@message(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrRequest:
    """Version 1 adds IsNew.
    Version 2 adds broker epoch and reorganizes the partitions by topic.
    Version 3 adds AddingReplicas and RemovingReplicas.
    Version 4 is the first flexible version.
    Version 5 adds Topic ID and Type to the TopicStates, as described in KIP-516.
    Version 6 adds LeaderRecoveryState as described in KIP-704.
    Version 7 adds KRaft Controller ID field as part of KIP-866
    """

    controller_id: i32  # The current controller ID.
    # If KRaft controller id is used during migration. See KIP-866
    is_kraft_controller: bool = field("7+", default=False)
    controller_epoch: i32  # The current controller epoch.
    broker_epoch: i64 = field("2+", default=-1, ignorable=True)  # The current broker epoch.
    type: i8 = field("5+", default=0)  # The type that indicates whether all topics are included in the request
    # The state of each partition, in a v0 or v1 message.
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field("0-1", default=[])
    # Each topic.
    # In v0 or v1 requests, each partition is listed alongside its topic name. In v2+ requests, partitions are organized
    # by topic, so that each topic name only needs to be listed once.
    topic_states: list[LeaderAndIsrTopicState] = field("2+", default=[])
    live_leaders: list[LeaderAndIsrLiveLeader]  # The current live leaders.


@struct
class LeaderAndIsrPartitionError:
    topic_name: string = field("0-4", default="", ignorable=True)  # The topic name.
    partition_index: i32  # The partition index.
    error_code: i16  # The partition error code, or 0 if there was no error.


@struct
class LeaderAndIsrTopicError:
    topic_id: uuid  # The unique topic ID
    partition_errors: list[LeaderAndIsrPartitionError]  # Each partition.


@message(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrResponse:
    """Version 1 adds KAFKA_STORAGE_ERROR as a valid error code.
    Version 4 is the first flexible version.
    Version 5 removes TopicName and replaces it with TopicId and reorganizes the partitions by topic, as described
    by KIP-516.
    """

    error_code: i16  # The error code, or 0 if there was no error.
    partition_errors: list[LeaderAndIsrPartitionError] = field("0-4", default=[])  # Each partition in v0 to v4 message.
    topics: list[LeaderAndIsrTopicError] = field("5+", default=[])  # Each topic
