"""UnregisterController: API key 94."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string


@message(key=94, versions="0", flexible="0+")
class UnregisterControllerRequest:
    controller_id: i32  # The controller ID to unregister.


@message(key=94, versions="0", flexible="0+")
class UnregisterControllerResponse:
    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    error_message: string | None  # The top-level error message, or `null` if there was no top-level error.
