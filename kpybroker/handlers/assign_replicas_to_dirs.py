"""AssignReplicasToDirs (73), version 0: in which log directories a broker keeps its replicas (KIP-858)."""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest


def handle(controller: Context, request: AssignReplicasToDirsRequest, call: Call) -> Pending:
    """The active controller notes it; see :mod:`kpybroker.controller.directories`."""
    return forward(controller, request, call)
