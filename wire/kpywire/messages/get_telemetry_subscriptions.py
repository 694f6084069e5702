"""GetTelemetrySubscriptions: API key 71."""

from __future__ import annotations

from kpywire.schema import i8, i16, i32, message, string, uuid


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    client_instance_id: uuid  # Unique id for this client instance, must be set to 0 on the first request.


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    client_instance_id: uuid  # Assigned client instance id if ClientInstanceId was 0 in the request, else 0.
    subscription_id: i32  # Unique identifier for the current subscription set for this client instance.
    accepted_compression_types: list[i8]  # Compression types that broker accepts for the PushTelemetryRequest.
    # Configured push interval, which is the lowest configured interval in the current subscription set.
    push_interval_ms: i32
    telemetry_max_bytes: i32  # The maximum bytes of binary data the broker accepts in PushTelemetryRequest.
    # Flag to indicate monotonic/counter metrics are to be emitted as deltas or cumulative values.
    delta_temporality: bool
    # Requested metrics prefix string match. Empty array: No metrics subscribed, Array[0] empty string: All metrics
    # subscribed.
    requested_metrics: list[string]
