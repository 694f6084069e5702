"""CreatePartitions (37), versions 0-3.

- The count only grows; new partitions may be assigned by hand.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.create_partitions import CreatePartitionsRequest


def handle(broker: Context, request: CreatePartitionsRequest, call: Call) -> Pending:
    """The controller decides; see :mod:`kpybroker.controller.partitions`."""
    return forward(broker, request, call)
