"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to and subtract from configs (KIP-339).

- Topics, brokers (an empty name is the cluster-wide default), client metrics and groups.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest


def handle(broker: Context, request: IncrementalAlterConfigsRequest, _call: Call) -> Pending:
    """The controller decides; see :mod:`kpybroker.controller.configs`."""
    return forward(broker, request)
