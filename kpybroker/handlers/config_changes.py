"""AlterConfigs and IncrementalAlterConfigs behind their own modules: what both do with what is settled already.

On a controller's listener a node judges its own loggers only, as Kafka's ``ControllerApis`` does; on a broker's it
refuses what is malformed and what it could not run with itself. The rest is the active controller's in both cases.
"""

from typing import Any

from kpybroker.config import alter
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending


def forward_rest(
    broker: Context, request: Any, call: Call, settled: alter.Settled, response_class: Any, result_class: Any
) -> Any | Pending:
    """Answer what is settled; have the controller decide on the resources that are not."""
    if not settled:
        return forward(broker, request, call)
    rest = alter.without(request.resources, settled)

    def complete(response: Any) -> Any:
        response.responses = alter.merge(request.resources, settled, response.responses, result_class)
        return response

    if not rest:
        return complete(response_class(throttle_time_ms=0, responses=[]))
    forwarded = type(request)(resources=rest, validate_only=request.validate_only)
    return forward(broker, forwarded, call, complete)
