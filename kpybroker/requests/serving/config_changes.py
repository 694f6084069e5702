"""The last step of AlterConfigs and IncrementalAlterConfigs: answer what is decided here, forward the rest.

On a controller's listener a node decides only on its own loggers, as Kafka's ``ControllerApis`` does. On a broker's
listener it refuses malformed changes and values that it could not run with itself. In both cases the active controller
decides on the rest.
"""

from typing import Any

from kpybroker.config import alter
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.forwarding import forward
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work


def forward_rest(
    broker: Context, request: Any, call: Call, settled: alter.Settled, response_class: Any, result_class: Any
) -> Work:
    """Answer the resources that are decided here; forward the others to the controller."""
    if not settled:
        return (yield forward(broker, request, call))
    rest = yield from alter.without(request.resources, settled)
    yield None
    response = response_class(throttle_time_ms=0, responses=[])
    if rest:
        forwarded = type(request)(resources=rest, validate_only=request.validate_only)
        response = yield forward(broker, forwarded, call)
    response.responses = yield from alter.merge(request.resources, settled, response.responses, result_class)
    return response
