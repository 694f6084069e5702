"""Vote (52), versions 0-2: a node of the quorum asks for a vote (KIP-595).

- v1: who is asked, and the ids of the directories (KIP-853); v2: whether there would be a vote, before it (KIP-996).
"""

from kpybroker.handlers.context import Call
from kpybroker.handlers.quorum_requests import QuorumContext, ask_replica
from kpybroker.server.pending import Pending
from kpywire.messages.vote import VoteRequest


def handle(node: QuorumContext, request: VoteRequest, call: Call) -> Pending:
    """The replica of the metadata log answers; see :mod:`kpybroker.raft.quorum`."""
    return ask_replica(node, request, call)
