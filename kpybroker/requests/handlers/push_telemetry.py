"""PushTelemetry (72), version 0: a client's metrics, as OpenTelemetry's ``MetricsData`` (KIP-714).

- The errors in Kafka's order: INVALID_REQUEST for a reserved instance id and after a push that was to be the last one,
  THROTTLING_QUOTA_EXCEEDED before the interval is over, unless this push is the last one, UNKNOWN_SUBSCRIPTION_ID,
  UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE over ``telemetry.max.bytes``, and INVALID_RECORD for a payload that
  cannot be read, also one that is larger than that when it is unpacked.
- A payload is read in steps, and others are served in between.
"""

from collections.abc import Generator

from kpybroker.requests.handlers.get_telemetry_subscriptions import attributes_of, connection_of
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpywire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(broker: Context, request: PushTelemetryRequest, call: Call) -> Generator[None, None, PushTelemetryResponse]:
    """Keep the metrics of a push for the next scrape."""
    now_ms = broker.scheduler.monotonic_ms()
    error = yield from broker.telemetry.push(request, attributes_of(call), connection_of(broker, call), now_ms)
    return PushTelemetryResponse(throttle_time_ms=0, error_code=error)
