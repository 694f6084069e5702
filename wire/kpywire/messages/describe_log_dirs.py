"""DescribeLogDirs: API key 35."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@struct
class DescribableLogDirTopic:
    topic: string  # The topic name.
    partitions: list[i32]  # The partition indexes.


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    """Version 2 is the first flexible version."""

    # Each topic that we want to describe log directories for, or null for all topics.
    topics: list[DescribableLogDirTopic] | None


@struct
class DescribeLogDirsPartition:
    partition_index: i32  # The partition index.
    partition_size: i64  # The size of the log segments in this partition in bytes.
    # The lag of the log's LEO w.r.t. partition's HW (if it is the current log for the partition) or current replica's
    # LEO (if it is the future log for the partition).
    offset_lag: i64
    # True if this log is created by AlterReplicaLogDirsRequest and will replace the current log of the replica in the
    # future.
    is_future_key: bool


@struct
class DescribeLogDirsTopic:
    name: string  # The topic name.
    partitions: list[DescribeLogDirsPartition]  # The partitions.


@struct
class DescribeLogDirsResult:
    error_code: i16  # The error code, or 0 if there was no error.
    log_dir: string  # The absolute log directory path.
    topics: list[DescribeLogDirsTopic]  # The topics.
    # The total size in bytes of the volume the log directory is in. This value does not include the size of data stored
    # in remote storage.
    total_bytes: i64 = field("4+", default=-1, ignorable=True)
    # The usable size in bytes of the volume the log directory is in. This value does not include the size of data
    # stored in remote storage.
    usable_bytes: i64 = field("4+", default=-1, ignorable=True)
    is_cordoned: bool = field("5+", default=False, ignorable=True)  # True if this log directory is cordoned.


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 is the first flexible version.
    Version 3 adds the top-level ErrorCode field
    Version 4 adds the TotalBytes and UsableBytes fields
    Version 5 adds IsCordoned field
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16 = field("3+", default=0, ignorable=True)  # The error code, or 0 if there was no error.
    results: list[DescribeLogDirsResult]  # The log directories.
