"""GetTelemetrySubscriptions (71), version 0: the metrics that a client is asked to push, and how often (KIP-714).

- A client without an instance id gets one.
- All subscriptions that match the client count together: the union of their metrics, the shortest of their intervals.
- A client that asks before its push interval is over gets THROTTLING_QUOTA_EXCEEDED, unless the subscriptions have
  changed or its last push was refused with UNKNOWN_SUBSCRIPTION_ID or UNSUPPORTED_COMPRESSION_TYPE.
"""

from kpybroker.machines.telemetry.instances import TelemetryConnection
from kpybroker.machines.telemetry.subscriptions import Attributes
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.address import java_address
from kpybroker.runtime.calls.call import Call
from kpywire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


def handle(broker: Context, request: GetTelemetrySubscriptionsRequest, call: Call) -> GetTelemetrySubscriptionsResponse:
    """Answer from the subscriptions that the metadata have."""
    now_ms = broker.scheduler.monotonic_ms()
    return broker.telemetry.get(request, attributes_of(call), connection_of(broker, call), now_ms)


def attributes_of(call: Call) -> Attributes:
    """The attributes of a client that subscriptions can match, by Kafka's names."""
    name, version = call.client.software
    return {
        "client_id": call.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": java_address(call.host),
        "client_source_port": str(call.client.port),
    }


def connection_of(broker: Context, call: Call) -> TelemetryConnection:
    """The connection of a request, which its client's instance ends with."""
    client = call.client
    if client.telemetry is None:
        client.telemetry = broker.telemetry.connection()
    connection: TelemetryConnection = client.telemetry
    return connection
