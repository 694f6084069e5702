"""ExpireDelegationToken: API key 40."""

from __future__ import annotations

from kpywire.schema import i16, i32, i64, message


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """Version 2 adds flexible version support"""

    hmac: bytes  # The HMAC of the delegation token to be expired.
    expiry_time_period_ms: i64  # The expiry time period in milliseconds.


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """Starting in version 1, on quota violation, brokers send out responses before throttling.
    Version 2 adds flexible version support
    """

    error_code: i16  # The error code, or 0 if there was no error.
    expiry_timestamp_ms: i64  # The timestamp in milliseconds at which this token expires.
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
