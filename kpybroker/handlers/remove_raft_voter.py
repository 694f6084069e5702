"""RemoveRaftVoter (81), version 0: a controller, there or not, does not vote any more (KIP-853)."""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest


def handle(broker: Context, request: RemoveRaftVoterRequest, call: Call) -> Pending:
    """The quorum's leader decides; see :mod:`kpybroker.raft.voter_changes`."""
    return forward(broker, request, call)
