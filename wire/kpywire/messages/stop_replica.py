"""StopReplica: API key 5."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@struct
class StopReplicaPartitionV0:
    topic_name: string  # The topic name.
    partition_index: i32  # The partition index.


@struct
class StopReplicaTopicV1:
    name: string  # The topic name.
    partition_indexes: list[i32]  # The partition indexes.


@struct
class StopReplicaPartitionState:
    partition_index: i32  # The partition index.
    leader_epoch: i32 = field(default=-1)  # The leader epoch.
    delete_partition: bool  # Whether this partition should be deleted.


@struct
class StopReplicaTopicState:
    topic_name: string  # The topic name.
    partition_states: list[StopReplicaPartitionState]  # The state of each partition


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaRequest:
    """Version 1 adds the broker epoch and reorganizes the partitions to be stored per topic.
    Version 2 is the first flexible version.
    Version 3 adds the leader epoch per partition (KIP-570).
    Version 4 adds KRaft Controller ID field as part of KIP-866
    """

    controller_id: i32  # The controller id.
    # If KRaft controller id is used during migration. See KIP-866
    is_kraft_controller: bool = field("4+", default=False)
    controller_epoch: i32  # The controller epoch.
    broker_epoch: i64 = field("1+", default=-1, ignorable=True)  # The broker epoch.
    delete_partitions: bool = field("0-2", default=False)  # Whether these partitions should be deleted.
    ungrouped_partitions: list[StopReplicaPartitionV0] = field("0", default=[])  # The partitions to stop.
    topics: list[StopReplicaTopicV1] = field("1-2", default=[])  # The topics to stop.
    topic_states: list[StopReplicaTopicState] = field("3+", default=[])  # Each topic.


@struct
class StopReplicaPartitionError:
    topic_name: string  # The topic name.
    partition_index: i32  # The partition index.
    error_code: i16  # The partition error code, or 0 if there was no partition error.


@message(key=5, versions="0-4", flexible="2+")
class StopReplicaResponse:
    """Version 2 is the first flexible version.
    Version 3 returns FENCED_LEADER_EPOCH if the epoch of the leader is stale (KIP-570).
    """

    error_code: i16  # The top-level error code, or 0 if there was no top-level error.
    partition_errors: list[StopReplicaPartitionError]  # The responses for each partition.
