"""AlterConfigs (33), versions 0-2: replaces all configs of a resource.

- Superseded by IncrementalAlterConfigs, still sent by older clients and tools.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.alter_configs import AlterConfigsRequest


def handle(broker: Context, request: AlterConfigsRequest, _call: Call) -> Pending:
    """The controller decides; see :mod:`kpybroker.controller.configs`."""
    return forward(broker, request)
