"""AllocateProducerIds (67), version 0: a block of producer ids for a broker (KIP-730)."""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest


def handle(controller: Context, request: AllocateProducerIdsRequest, call: Call) -> Pending:
    """The active controller decides; see :mod:`kpybroker.controller.producer_ids`."""
    return forward(controller, request, call)
