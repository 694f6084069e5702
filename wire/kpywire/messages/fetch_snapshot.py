"""FetchSnapshot: API key 59."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, record_batches, string, struct, u16, uuid
from kpywire.uuid import ZERO_UUID


@struct
class FetchSnapshotRequestSnapshotId:
    end_offset: i64  # The end offset of the snapshot.
    epoch: i32  # The epoch of the snapshot.


@struct
class FetchSnapshotRequestPartitionSnapshot:
    partition: i32  # The partition index.
    current_leader_epoch: i32  # The current leader epoch of the partition, -1 for unknown leader epoch.
    snapshot_id: FetchSnapshotRequestSnapshotId  # The snapshot endOffset and epoch to fetch.
    position: i64  # The byte position within the snapshot to start fetching from.
    # The directory id of the follower fetching.
    replica_directory_id: uuid = field("1+", tag=0, default=ZERO_UUID, ignorable=True)


@struct
class FetchSnapshotRequestTopicSnapshot:
    name: string  # The name of the topic to fetch.
    partitions: list[FetchSnapshotRequestPartitionSnapshot]  # The partitions to fetch.


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest:
    """Version 1 adds replica directory id (KIP-853)"""

    # The clusterId if known, this is used to validate metadata fetches prior to broker registration.
    cluster_id: string | None = field(tag=0, default=None)
    replica_id: i32 = field(default=-1)  # The broker ID of the follower.
    max_bytes: i32 = field(default=0x7FFF_FFFF)  # The maximum bytes to fetch from all of the snapshots.
    topics: list[FetchSnapshotRequestTopicSnapshot]  # The topics to fetch.


@struct
class FetchSnapshotResponseSnapshotId:
    end_offset: i64  # The snapshot end offset.
    epoch: i32  # The snapshot epoch.


@struct
class LeaderIdAndEpoch:
    leader_id: i32  # The ID of the current leader or -1 if the leader is unknown.
    leader_epoch: i32  # The latest known leader epoch.


@struct
class FetchSnapshotResponsePartitionSnapshot:
    index: i32  # The partition index.
    error_code: i16  # The error code, or 0 if there was no fetch error.
    snapshot_id: FetchSnapshotResponseSnapshotId  # The snapshot endOffset and epoch fetched.
    # The leader of the partition at the time of the snapshot.
    current_leader: LeaderIdAndEpoch = field(tag=0, default=LeaderIdAndEpoch)
    size: i64  # The total size of the snapshot.
    position: i64  # The starting byte position within the snapshot included in the Bytes field.
    unaligned_records: record_batches  # Snapshot data in records format which may not be aligned on an offset boundary.


@struct
class FetchSnapshotResponseTopicSnapshot:
    name: string  # The name of the topic to fetch.
    partitions: list[FetchSnapshotResponsePartitionSnapshot]  # The partitions to fetch.


@struct
class NodeEndpoint:
    node_id: i32  # The ID of the associated node.
    host: string  # The node's hostname.
    port: u16  # The node's port.


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse:
    """Version 1 adds leader endpoint (KIP-853)"""

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top level response error code.
    topics: list[FetchSnapshotResponseTopicSnapshot]  # The topics to fetch.
    # Endpoints for all current-leaders enumerated in PartitionSnapshot.
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, default=[])
