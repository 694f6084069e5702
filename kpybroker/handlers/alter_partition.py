"""AlterPartition (56), versions 2-3: leaders change the in-sync sets of their partitions (KIP-497).

- v3: members come with their broker epochs (KIP-903)."""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.alter_partition import AlterPartitionRequest


def handle(controller: Context, request: AlterPartitionRequest, call: Call) -> Pending:
    """The active controller decides; see :mod:`kpybroker.controller.partitions`."""
    return forward(controller, request, call)
