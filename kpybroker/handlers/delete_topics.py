"""DeleteTopics (20), versions 1-6.

- v5: error messages; v6: by topic id (KIP-516).
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.delete_topics import DeleteTopicsRequest


def handle(broker: Context, request: DeleteTopicsRequest, call: Call) -> Pending:
    """The controller decides; see :mod:`kpybroker.controller.topics`."""
    return forward(broker, request, call)
