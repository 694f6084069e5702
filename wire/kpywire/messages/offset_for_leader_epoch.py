"""OffsetForLeaderEpoch: API key 23."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@struct
class OffsetForLeaderPartition:
    partition: i32  # The partition index.
    # An epoch used to fence consumers/replicas with old metadata. If the epoch provided by the client is larger than
    # the current epoch known to the broker, then the UNKNOWN_LEADER_EPOCH error code will be returned. If the provided
    # epoch is smaller, then the FENCED_LEADER_EPOCH error code will be returned.
    current_leader_epoch: i32 = field(default=-1)
    leader_epoch: i32  # The epoch to look up an offset for.


@struct
class OffsetForLeaderTopic:
    topic: string  # The topic name.
    partitions: list[OffsetForLeaderPartition]  # Each partition to get offsets for.


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Version 2 adds the current leader epoch to support fencing.
    Version 3 adds ReplicaId (the default is -2 which conventionally represents a "debug" consumer which is
    allowed to see offsets beyond the high watermark). Followers will use this replicaId when using an older
    version of the protocol.
    Version 4 enables flexible versions.
    """

    # The broker ID of the follower, of -1 if this request is from a consumer.
    replica_id: i32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]  # Each topic to get offsets for.


@struct
class EpochEndOffset:
    error_code: i16  # The error code 0, or if there was no error.
    partition: i32  # The partition index.
    leader_epoch: i32 = field(default=-1)  # The leader epoch of the partition.
    end_offset: i64 = field(default=-1)  # The end offset of the epoch.


@struct
class OffsetForLeaderTopicResult:
    topic: string  # The topic name.
    partitions: list[EpochEndOffset]  # Each partition in the topic we fetched offsets for.


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """Version 1 added the leader epoch to the response.
    Version 2 added the throttle time.
    Version 4 enables flexible versions.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    topics: list[OffsetForLeaderTopicResult]  # Each topic we fetched offsets for.
