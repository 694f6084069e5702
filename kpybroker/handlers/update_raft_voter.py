"""UpdateRaftVoter (82), version 0: a voter tells its leader where it listens and what it supports (KIP-853)."""

from kpybroker.handlers.context import Call
from kpybroker.handlers.quorum_requests import QuorumContext, ask_replica
from kpybroker.server.pending import Pending
from kpywire.messages.update_raft_voter import UpdateRaftVoterRequest


def handle(node: QuorumContext, request: UpdateRaftVoterRequest, call: Call) -> Pending:
    """The replica of the metadata log answers; see :mod:`kpybroker.raft.voter_changes`."""
    return ask_replica(node, request, call)
