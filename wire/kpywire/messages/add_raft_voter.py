"""AddRaftVoter: API key 80."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string, struct, u16, uuid


@struct
class Listener:
    name: string  # The name of the endpoint.
    host: string  # The hostname.
    port: u16  # The port.


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """Version 1 adds the AckWhenCommitted field."""

    cluster_id: string | None  # The cluster id.
    timeout_ms: i32  # The maximum time to wait for the request to complete before returning.
    voter_id: i32  # The replica id of the voter getting added to the topic partition.
    voter_directory_id: uuid  # The directory id of the voter getting added to the topic partition.
    listeners: list[Listener]  # The endpoints that can be used to communicate with the voter.
    # When true, return a response after the new voter set is committed. Otherwise, return after the leader writes the
    # changes locally.
    ack_when_committed: bool = field("1+", default=True)


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None  # The error message, or null if there was no error.
