"""UnregisterBroker (64), version 0: forget a broker that will not come back (KIP-730).

- A broker that lives is forgotten too, and its partitions lose their leaders. It registers anew at once, where
  Kafka's has to be started again.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.unregister_broker import UnregisterBrokerRequest


def handle(broker: Context, request: UnregisterBrokerRequest, call: Call) -> Pending:
    """The controller decides; see :mod:`kpybroker.controller.brokers`."""
    return forward(broker, request, call)
