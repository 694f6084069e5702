"""EndQuorumEpoch (54), versions 0-1: a leader resigns and says who should follow it (KIP-595).

- v1: where it listens, and the directories of those it names (KIP-853).
"""

from kpybroker.handlers.context import Call
from kpybroker.handlers.quorum_requests import QuorumContext, ask_replica
from kpybroker.server.pending import Pending
from kpywire.messages.end_quorum_epoch import EndQuorumEpochRequest


def handle(node: QuorumContext, request: EndQuorumEpochRequest, call: Call) -> Pending:
    """The replica of the metadata log answers; see :mod:`kpybroker.raft.quorum`."""
    return ask_replica(node, request, call)
