"""AlterConfigs (33), versions 0-2: replaces all configs of a resource.

- Superseded by IncrementalAlterConfigs, still sent by older clients and tools.
- The broker refuses what is malformed and what it could not run with itself; the rest is the controller's.
"""

from kpybroker.config import alter
from kpybroker.config.view import BrokerView
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse


def handle(broker: Context, request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse | Pending:
    """The controller decides what is left; see :mod:`kpybroker.controller.configs`."""
    settled = alter.settle_legacy(request, BrokerView(broker))
    rest = alter.without(request.resources, settled)

    def complete(response: AlterConfigsResponse) -> AlterConfigsResponse:
        response.responses = alter.merge(request.resources, settled, response.responses, AlterConfigsResourceResponse)
        return response

    if not rest:
        return complete(AlterConfigsResponse(throttle_time_ms=0, responses=[]))
    forwarded = AlterConfigsRequest(resources=rest, validate_only=request.validate_only)
    return forward(broker, forwarded, call, complete)
