"""AlterConfigs and IncrementalAlterConfigs behind their own modules: what both do with what is settled already.

On a controller's listener a node judges its own loggers only, as Kafka's ``ControllerApis`` does; on a broker's it
refuses what is malformed and what it could not run with itself. The rest is the active controller's in both cases.
"""

from typing import Any

from kpybroker.config import alter
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.slices import Work


def forward_rest(
    broker: Context, request: Any, call: Call, settled: alter.Settled, response_class: Any, result_class: Any
) -> Work:
    """Answer what is settled; have the controller decide on the resources that are not."""
    if not settled:
        return (yield forward(broker, request, call))
    rest = alter.without(request.resources, settled)
    yield None
    response = response_class(throttle_time_ms=0, responses=[])
    if rest:
        forwarded = type(request)(resources=rest, validate_only=request.validate_only)
        response = yield forward(broker, forwarded, call)
    response.responses = yield from alter.merge(request.resources, settled, response.responses, result_class)
    return response
