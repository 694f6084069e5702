"""FetchSnapshot (59), versions 0-1: part of a snapshot, for a node that lacks what it stands for (KIP-630).

- v1: the directory of the node that asks, and where the leader listens (KIP-853).
"""

from kpybroker.handlers.context import Call
from kpybroker.handlers.quorum_requests import QuorumContext, ask_replica
from kpybroker.server.pending import Pending
from kpywire.messages.fetch_snapshot import FetchSnapshotRequest


def handle(node: QuorumContext, request: FetchSnapshotRequest, call: Call) -> Pending:
    """The replica of the metadata log answers; see :mod:`kpybroker.raft.quorum`."""
    return ask_replica(node, request, call)
