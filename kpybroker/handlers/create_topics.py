"""CreateTopics (19), versions 2-7.

- v4: -1 partitions or replication factor is the broker's default (KIP-464); v5: what was made (KIP-525); v7: topic ids.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.create_topics import CreateTopicsRequest


def handle(broker: Context, request: CreateTopicsRequest, call: Call) -> Pending:
    """The controller decides; see :mod:`kpybroker.controller.topics`."""
    return forward(broker, request, call)
