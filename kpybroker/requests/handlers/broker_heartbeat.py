"""BrokerHeartbeat (63), versions 0-2: a broker reports that it is alive, and the state that it wants (KIP-631).

- v1: the log directories that failed (KIP-858). v2: those that take no new logs (KIP-1066).
- The connection of a heartbeat is remembered: its end may be the first sign that the broker has died.
"""

from typing import Protocol

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.forwarding import forward
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.pending import Pending
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest


class ControllerSide(Context, Protocol):
    """The controller's side of a node."""

    def heard(self, broker_id: int, broker_epoch: int, client: ConnectedClient) -> None:
        """Note the connection by which a broker's heartbeat came."""


def handle(controller: ControllerSide, request: BrokerHeartbeatRequest, call: Call) -> Pending:
    """Pass the heartbeat to the active controller, which decides (:mod:`kpybroker.machines.controller.brokers`)."""
    controller.heard(request.broker_id, request.broker_epoch, call.client)
    return forward(controller, request, call)
