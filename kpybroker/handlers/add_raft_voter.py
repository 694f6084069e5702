"""AddRaftVoter (80), versions 0-1: a controller that follows the metadata log already may vote from now on (KIP-853).

- v1: whether the answer waits until the new voters are committed.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.add_raft_voter import AddRaftVoterRequest


def handle(broker: Context, request: AddRaftVoterRequest, call: Call) -> Pending:
    """The quorum's leader decides; see :mod:`kpybroker.raft.voter_changes`."""
    return forward(broker, request, call)
