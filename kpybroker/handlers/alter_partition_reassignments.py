"""AlterPartitionReassignments (45), versions 0-1: move partitions to other brokers, or call it off (KIP-455).

- v1: whether the replication factor may change with it (KIP-860).
- To where a partition lies already changes nothing; ``kafka-reassign-partitions`` asks so before it moves replicas
  between the directories of their brokers.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest


def handle(broker: Context, request: AlterPartitionReassignmentsRequest, call: Call) -> Pending:
    """The controller decides; see :mod:`kpybroker.controller.reassignments`."""
    return forward(broker, request, call)
