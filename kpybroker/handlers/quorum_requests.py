"""Requests of the quorum's nodes to one another: passed on to this node's replica of the metadata log. Not a handler.

Not every node answers as a leader would; what a node says that does not lead, the replica knows (`kpybroker.raft`).
"""

from typing import Any, Protocol

from kpybroker.server.pending import Pending


class Replica(Protocol):
    """This node's part of the quorum."""

    def asked(self, message: Any, reply: Any) -> None: ...


class QuorumContext(Protocol):
    """What these handlers see of the node."""

    controller: Replica


def ask_replica(node: QuorumContext, request: Any) -> Pending:
    """Have a request answered, now or after a while."""
    pending = Pending()

    def answer(response: Any) -> None:
        if not pending.resolved:
            pending.resolve(response)

    node.controller.asked(request, answer)
    return pending
