"""BrokerRegistration (62), versions 0-4: a broker comes into the cluster (KIP-631).

- v1: what it is migrated from; v2: its log directories (KIP-858);
  v3: its epoch before, if it stopped cleanly (KIP-966).
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.broker_registration import BrokerRegistrationRequest


def handle(controller: Context, request: BrokerRegistrationRequest, call: Call) -> Pending:
    """The active controller decides; see :mod:`kpybroker.controller.brokers`."""
    return forward(controller, request, call)
