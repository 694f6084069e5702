"""BrokerHeartbeat (63), versions 0-2: a broker says that it lives and what it wants (KIP-631).

- v1: which log directories failed (KIP-858); v2: which take no new logs (KIP-1066)."""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest


def handle(controller: Context, request: BrokerHeartbeatRequest, call: Call) -> Pending:
    """The active controller decides; see :mod:`kpybroker.controller.brokers`."""
    return forward(controller, request, call)
