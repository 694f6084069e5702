"""PushTelemetry: API key 72."""

from __future__ import annotations

from kpywire.schema import i8, i16, i32, message, uuid


@message(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: uuid  # Unique id for this client instance.
    subscription_id: i32  # Unique identifier for the current subscription.
    terminating: bool  # Client is terminating the connection.
    compression_type: i8  # Compression codec used to compress the metrics.
    metrics: bytes  # Metrics encoded in OpenTelemetry MetricsData v1 protobuf format.


@message(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
