"""ListPartitionReassignments (46), version 0: which partitions are moving between brokers (KIP-455).

- Null topics means all. A partition that is not moving, or not there, is left out.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


def handle(broker: Context, request: ListPartitionReassignmentsRequest, call: Call) -> Pending:
    """The controller answers; see :mod:`kpybroker.controller.reassignments`."""
    return forward(broker, request, call)
