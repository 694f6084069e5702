"""The requests of the quorum's nodes to each other. They are passed to this node's replica of the metadata log.

`QUORUM` has an entry for each: its versions, and what they add. A node that does not lead answers too;
`kpybroker.machines.raft.quorum` decides how.
"""

from typing import Any, Final, Protocol

from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpywire import api

QUORUM: Final = {
    "begin_quorum_epoch": """BeginQuorumEpoch (53), versions 0-1: a leader tells the voters that it leads (KIP-595).
        - v1: where it listens, and which directory it means (KIP-853).""",
    "end_quorum_epoch": """EndQuorumEpoch (54), versions 0-1: a leader resigns and names its successors (KIP-595).
        - v1: where it listens, and the directories of the successors (KIP-853).""",
    "fetch_snapshot": """FetchSnapshot (59), versions 0-1: part of a snapshot, for a node that lacks its records
        (KIP-630).
        - v1: the directory of the node that asks, and where the leader listens (KIP-853).""",
    "update_raft_voter": """UpdateRaftVoter (82), version 0: a voter tells its leader where it listens and what it
        supports (KIP-853).""",
    "vote": """Vote (52), versions 0-2: a node of the quorum asks for a vote (KIP-595).
        - v1: who is asked, and the ids of the directories (KIP-853); v2: a pre-vote (KIP-996).""",
}
"""The quorum's APIs by message module. Fetch on a controller's listener is served here, too: it reads the metadata log
(KIP-595). Sessions, isolation level and limits are ignored there, as in Kafka."""

WITH_ENDPOINTS_FROM: Final = {
    api.FETCH: 16,
    api.VOTE: 1,
    api.BEGIN_QUORUM_EPOCH: 1,
    api.END_QUORUM_EPOCH: 1,
    api.FETCH_SNAPSHOT: 1,
}
"""The first version of each API key whose answer has a field for the leader's address (KIP-853)."""


class DescribedQuorum(Protocol):
    """This node's part of the quorum."""

    def asked(self, message: Any, reply: Any, listener_name: str) -> None:
        """Answer a message, which came by a listener, by calling ``reply``, now or later."""


class QuorumContext(Protocol):
    """The node, as these requests see it."""

    controller: DescribedQuorum


def handle(node: QuorumContext, request: Any, call: Call) -> Pending:
    """Have the replica of the metadata log answer a request."""
    pending = Pending()

    def answer(response: Any) -> None:
        if call.api_version < WITH_ENDPOINTS_FROM.get(call.api_key, 0):
            response.node_endpoints = []
        if not pending.resolved:
            pending.resolve(response)

    node.controller.asked(request, answer, call.listener_name)
    return pending
