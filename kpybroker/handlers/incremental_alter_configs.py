"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to and subtract from configs (KIP-339).

- Topics, brokers (an empty name is the cluster-wide default), client metrics and groups.
- Loggers of this broker (KIP-412) are set at once and not stored.
- The broker refuses what is malformed and what it could not run with itself; the rest is the controller's.
"""

from kpybroker.config import alter
from kpybroker.config.view import BrokerView
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(
    broker: Context, request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse | Pending:
    """The controller decides what is left; see :mod:`kpybroker.controller.configs`."""
    settled = alter.settle_incremental(request, BrokerView(broker))
    rest = alter.without(request.resources, settled)

    def complete(response: IncrementalAlterConfigsResponse) -> IncrementalAlterConfigsResponse:
        response.responses = alter.merge(request.resources, settled, response.responses, AlterConfigsResourceResponse)
        return response

    if not rest:
        return complete(IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=[]))
    forwarded = IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only)
    return forward(broker, forwarded, call, complete)
