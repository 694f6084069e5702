"""UnregisterBroker: API key 64."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: i32  # The broker ID to unregister.


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None  # The top-level error message, or `null` if there was no top-level error.
