"""AlterConfigs (33), versions 0-2: replaces all configs of a resource.

- Superseded by IncrementalAlterConfigs, still sent by older clients and tools. It sets no loggers.
- The broker refuses what is malformed and what it could not run with itself; the rest is the controller's.
"""

from kpybroker.config import alter
from kpybroker.config.view import BrokerView
from kpybroker.handlers.config_changes import forward_rest
from kpybroker.handlers.context import Call, Context, is_asked_as_controller
from kpybroker.server.slices import Work
from kpywire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse


def handle(broker: Context, request: AlterConfigsRequest, call: Call) -> Work:
    """The controller decides what is left; see :mod:`kpybroker.controller.configs`."""
    if is_asked_as_controller(broker, call):
        settled = yield from alter.settle_on_controller(request, BrokerView(broker))
    else:
        settled = yield from alter.settle_legacy(request, BrokerView(broker))
    return (yield from forward_rest(broker, request, call, settled, AlterConfigsResponse, AlterConfigsResourceResponse))
