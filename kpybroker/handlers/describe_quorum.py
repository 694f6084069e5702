"""DescribeQuorum (55), versions 0-2: the voters of the metadata log and how far they are (KIP-595).

- v1: when each of them last fetched and was last caught up (KIP-836); the leader itself is always caught up.
- v2: where the voters listen, the ids of their directories, error messages (KIP-853).
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.describe_quorum import DescribeQuorumRequest


def handle(broker: Context, request: DescribeQuorumRequest, call: Call) -> Pending:
    """The quorum's leader tells; see :mod:`kpybroker.raft.description`."""
    return forward(broker, request, call)
