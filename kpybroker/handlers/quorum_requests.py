"""Requests of the quorum's nodes to one another: passed on to this node's replica of the metadata log. Not a handler.

Not every node answers as a leader would; what a node says that does not lead, the replica knows (`kpybroker.raft`).
"""

from typing import Any, Protocol

from kpybroker.handlers.context import Call
from kpybroker.server.pending import Pending
from kpywire import api


class Replica(Protocol):
    """This node's part of the quorum."""

    def asked(self, message: Any, reply: Any) -> None: ...


class QuorumContext(Protocol):
    """What these handlers see of the node."""

    controller: Replica


WITH_ENDPOINTS_FROM = {
    api.FETCH: 16,
    api.VOTE: 1,
    api.BEGIN_QUORUM_EPOCH: 1,
    api.END_QUORUM_EPOCH: 1,
    api.FETCH_SNAPSHOT: 1,
}
"""By API key: from which version on an answer has room for where the leader listens (KIP-853)."""


def ask_replica(node: QuorumContext, request: Any, call: Call) -> Pending:
    """Have a request answered, now or after a while."""
    pending = Pending()

    def answer(response: Any) -> None:
        if call.api_version < WITH_ENDPOINTS_FROM.get(call.api_key, 0):
            response.node_endpoints = []
        if not pending.resolved:
            pending.resolve(response)

    node.controller.asked(request, answer)
    return pending
