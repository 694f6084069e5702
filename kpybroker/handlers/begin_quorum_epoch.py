"""BeginQuorumEpoch (53), versions 0-1: a leader tells the voters that it leads (KIP-595).

- v1: where it listens, and which directory it means (KIP-853).
"""

from kpybroker.handlers.context import Call
from kpybroker.handlers.quorum_requests import QuorumContext, ask_replica
from kpybroker.server.pending import Pending
from kpywire.messages.begin_quorum_epoch import BeginQuorumEpochRequest


def handle(node: QuorumContext, request: BeginQuorumEpochRequest, call: Call) -> Pending:
    """The replica of the metadata log answers; see :mod:`kpybroker.raft.quorum`."""
    return ask_replica(node, request, call)
