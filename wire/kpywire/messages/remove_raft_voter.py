"""RemoveRaftVoter: API key 81."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string, uuid


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    cluster_id: string | None  # The cluster id of the request.
    voter_id: i32  # The replica id of the voter getting removed from the topic partition.
    voter_directory_id: uuid  # The directory id of the voter getting removed from the topic partition.


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None  # The error message, or null if there was no error.
