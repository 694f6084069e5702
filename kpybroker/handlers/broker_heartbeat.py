"""BrokerHeartbeat (63), versions 0-2: a broker says that it lives and what it wants (KIP-631).

- v1: which log directories failed (KIP-858); v2: which take no new logs (KIP-1066).
- The connection that it comes by is remembered: one that closes may be the first sign of the broker's end.
"""

from typing import Protocol

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.connection import Connection
from kpybroker.server.pending import Pending
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest


class ControllerContext(Context, Protocol):
    """The controller's side of a node."""

    def heard(self, broker_id: int, broker_epoch: int, connection: Connection) -> None:
        """A broker's heartbeat came by this connection."""


def handle(controller: ControllerContext, request: BrokerHeartbeatRequest, call: Call) -> Pending:
    """The active controller decides; see :mod:`kpybroker.controller.brokers`."""
    controller.heard(request.broker_id, request.broker_epoch, call.connection)
    return forward(controller, request, call)
