"""AlterReplicaLogDirs: API key 34."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string, struct


@struct
class AlterReplicaLogDirTopic:
    name: string  # The topic name.
    partitions: list[i32]  # The partition indexes.


@struct
class AlterReplicaLogDir:
    path: string  # The absolute directory path.
    topics: list[AlterReplicaLogDirTopic]  # The topics to add to the directory.


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """Version 2 enables flexible versions."""

    dirs: list[AlterReplicaLogDir]  # The alterations to make for each directory.


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no error.


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: string  # The name of the topic.
    partitions: list[AlterReplicaLogDirPartitionResult]  # The results for each partition.


@message(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """Starting in version 1, on quota violation brokers send out responses before throttling.
    Version 2 enables flexible versions.
    """

    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    results: list[AlterReplicaLogDirTopicResult]  # The results for each topic.
