"""BrokerHeartbeat: API key 63."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, uuid


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest:
    broker_id: i32  # The broker ID.
    broker_epoch: i64 = field(default=-1)  # The broker epoch.
    current_metadata_offset: i64  # The highest metadata offset which the broker has reached.
    want_fence: bool  # True if the broker wants to be fenced, false otherwise.
    want_shut_down: bool  # True if the broker wants to be shut down, false otherwise.
    offline_log_dirs: list[uuid] = field("1+", tag=0, default=[])  # Log directories that failed and went offline.
    # List of log directories that are cordoned. This is null before the broker reaches the RECOVERY state.
    cordoned_log_dirs: list[uuid] | None = field("2+", tag=1, default=None)


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse:
    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    # True if the broker has approximately caught up with the latest metadata.
    is_caught_up: bool = field(default=False)
    is_fenced: bool = field(default=True)  # True if the broker is fenced.
    should_shut_down: bool  # True if the broker should proceed with its shutdown.
