"""ListOffsets: API key 2."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, string, struct


@struct
class ListOffsetsPartition:
    partition_index: i32  # The partition index.
    current_leader_epoch: i32 = field("4+", default=-1, ignorable=True)  # The current leader epoch.
    timestamp: i64  # The current timestamp.


@struct
class ListOffsetsTopic:
    name: string  # The topic name.
    partitions: list[ListOffsetsPartition]  # Each partition in the request.


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    """Version 1 removes MaxNumOffsets. From this version forward, only a single offset can be returned.
    Version 2 adds the isolation level, which is used for transactional reads.
    Version 4 adds the current leader epoch, which is used for fencing.
    Version 6 enables flexible versions.
    Version 7 enables listing offsets by max timestamp (KIP-734).
    Version 8 enables listing offsets by local log start offset (KIP-405).
    Version 9 enables listing offsets by last tiered offset (KIP-1005).
    Version 10 enables async remote list offsets support (KIP-1075)
    Version 11 enables listing offsets by earliest pending upload offset (KIP-1023)
    """

    replica_id: i32  # The broker ID of the requester, or -1 if this request is being made by a normal consumer.
    # This setting controls the visibility of transactional records. Using READ_UNCOMMITTED (isolation_level = 0) makes
    # all records visible. With READ_COMMITTED (isolation_level = 1), non-transactional and COMMITTED transactional
    # records are visible. To be more concrete, READ_COMMITTED returns all data from offsets smaller than the current
    # LSO (last stable offset), and enables the inclusion of the list of aborted transactions in the result, which
    # allows consumers to discard ABORTED transactional records.
    isolation_level: i8 = field("2+", default=0)
    topics: list[ListOffsetsTopic]  # Each topic in the request.
    # The timeout to await a response in milliseconds for requests that require reading from remote storage for topics
    # enabled with tiered storage.
    timeout_ms: i32 = field("10+", default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: i32  # The partition index.
    error_code: i16  # The partition error code, or 0 if there was no error.
    timestamp: i64 = field(default=-1)  # The timestamp associated with the returned offset.
    offset: i64 = field(default=-1)  # The returned offset.
    leader_epoch: i32 = field("4+", default=-1)  # The leader epoch associated with the returned offset.


@struct
class ListOffsetsTopicResponse:
    name: string  # The topic name.
    partitions: list[ListOffsetsPartitionResponse]  # Each partition in the response.


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    """Version 1 removes the offsets array in favor of returning a single offset.
    Version 1 also adds the timestamp associated with the returned offset.
    Version 2 adds the throttle time.
    Starting in version 3, on quota violation, brokers send out responses before throttling.
    Version 4 adds the leader epoch, which is used for fencing.
    Version 5 adds a new error code, OFFSET_NOT_AVAILABLE.
    Version 6 enables flexible versions.
    Version 7 is the same as version 6 (KIP-734).
    Version 8 enables listing offsets by local log start offset. This is the earliest log start offset in the
    local log. (KIP-405).
    Version 9 enables listing offsets by last tiered offset (KIP-1005).
    Version 10 enables async remote list offsets support (KIP-1075)
    Version 11 enables listing offsets by earliest pending upload offset (KIP-1023)
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]  # Each topic in the response.
