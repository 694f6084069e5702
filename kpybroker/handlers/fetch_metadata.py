"""Fetch (1) on a listener of controllers, versions 4-18: the metadata log, for other voters and for observers.

The metadata log is replicated with the requests of partitions, and nothing else is fetched from a controller
(KIP-595). What belongs to partitions (sessions, isolation, limits) is not looked at, as in Kafka.
"""

from kpybroker.handlers.context import Call
from kpybroker.handlers.quorum_requests import QuorumContext, ask_replica
from kpybroker.server.pending import Pending
from kpywire.messages.fetch import FetchRequest


def handle(node: QuorumContext, request: FetchRequest, call: Call) -> Pending:
    """The replica of the metadata log answers; see :mod:`kpybroker.raft.quorum`."""
    return ask_replica(node, request, call)
