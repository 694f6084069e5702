"""BrokerHeartbeat (63), versions 0-2: a broker reports that it is alive, and the state that it wants (KIP-631).

- v1: the log directories that failed (KIP-858). v2: those that take no new logs (KIP-1066).
- A tagged field that Kafka reads over may name the brokers that do not answer the sender.
- The connection of a heartbeat is remembered: its end may be the first sign that the broker has died.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

from kpybroker.machines.reporting_heartbeat import ReportingHeartbeatRequest
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.forwarding import forward
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.pending import Pending
from kpywire.codec import decoder


class ControllerSide(Context, Protocol):
    """The controller's side of a node."""

    def heard(self, broker_id: int, broker_epoch: int, client: ConnectedClient) -> None:
        """Note the connection by which a broker's heartbeat came."""


class HeartbeatDecoder(NamedTuple):
    """The decoder of one version."""

    decode: Callable[[memoryview, int], tuple[Any, int]]


@cache
def request_decoder(version: int) -> HeartbeatDecoder:
    """The decoder of heartbeats that may report silent brokers."""
    return HeartbeatDecoder(decoder(ReportingHeartbeatRequest, version))


def handle(controller: ControllerSide, request: ReportingHeartbeatRequest, call: Call) -> Pending:
    """Pass the heartbeat to the active controller, which decides (:mod:`kpybroker.machines.controller.brokers`)."""
    controller.heard(request.broker_id, request.broker_epoch, call.client)
    return forward(controller, request, call)
