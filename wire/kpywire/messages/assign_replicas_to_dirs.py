"""AssignReplicasToDirs: API key 73."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, struct, uuid


@struct
class AssignReplicasToDirsRequestPartitionData:
    partition_index: i32  # The partition index.


@struct
class AssignReplicasToDirsRequestTopicData:
    topic_id: uuid  # The ID of the assigned topic.
    partitions: list[AssignReplicasToDirsRequestPartitionData]  # The partitions assigned to the directory.


@struct
class AssignReplicasToDirsRequestDirectoryData:
    id: uuid  # The ID of the directory.
    topics: list[AssignReplicasToDirsRequestTopicData]  # The topics assigned to the directory.


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest:
    broker_id: i32  # The ID of the requesting broker.
    broker_epoch: i64 = field(default=-1)  # The epoch of the requesting broker.
    directories: list[AssignReplicasToDirsRequestDirectoryData]  # The directories to which replicas should be assigned.


@struct
class AssignReplicasToDirsResponsePartitionData:
    partition_index: i32  # The partition index.
    error_code: i16  # The partition level error code.


@struct
class AssignReplicasToDirsResponseTopicData:
    topic_id: uuid  # The ID of the assigned topic.
    partitions: list[AssignReplicasToDirsResponsePartitionData]  # The list of assigned partitions.


@struct
class AssignReplicasToDirsResponseDirectoryData:
    id: uuid  # The ID of the directory.
    topics: list[AssignReplicasToDirsResponseTopicData]  # The list of topics and their assigned partitions.


@message(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top level response error code.
    # The list of directories and their assigned partitions.
    directories: list[AssignReplicasToDirsResponseDirectoryData]
