"""UpdateRaftVoter: API key 82."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, u16, uuid


@struct
class Listener:
    name: string  # The name of the endpoint.
    host: string  # The hostname.
    port: u16  # The port.


@struct
class KRaftVersionFeature:
    min_supported_version: i16  # The minimum supported KRaft protocol version.
    max_supported_version: i16  # The maximum supported KRaft protocol version.


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest:
    cluster_id: string | None  # The cluster id.
    current_leader_epoch: i32  # The current leader epoch of the partition, -1 for unknown leader epoch.
    voter_id: i32  # The replica id of the voter getting updated in the topic partition.
    voter_directory_id: uuid  # The directory id of the voter getting updated in the topic partition.
    listeners: list[Listener]  # The endpoint that can be used to communicate with the leader.
    kraft_version_feature: KRaftVersionFeature  # The range of versions of the protocol that the replica supports.


@struct
class CurrentLeader:
    leader_id: i32 = field(default=-1)  # The replica id of the current leader or -1 if the leader is unknown.
    leader_epoch: i32 = field(default=-1)  # The latest known leader epoch.
    host: string  # The node's hostname.
    port: i32  # The node's port.


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    current_leader: CurrentLeader = field(tag=0, default=CurrentLeader)  # Details of the current Raft cluster leader.
