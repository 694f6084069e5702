"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to and subtract from configs (KIP-339).

- Topics, brokers (an empty name is the cluster-wide default), client metrics and groups.
- Loggers of this node (KIP-412) are set at once and not stored.
- The broker refuses what is malformed and what it could not run with itself; the rest is the controller's.
"""

from kpybroker.config import alter
from kpybroker.config.view import BrokerView
from kpybroker.handlers.config_changes import forward_rest
from kpybroker.handlers.context import Call, Context, is_asked_as_controller
from kpybroker.server.slices import Work
from kpywire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(broker: Context, request: IncrementalAlterConfigsRequest, call: Call) -> Work:
    """The controller decides what is left; see :mod:`kpybroker.controller.configs`."""
    if is_asked_as_controller(broker, call):
        settled = yield from alter.settle_on_controller(request, BrokerView(broker))
    else:
        settled = yield from alter.settle_incremental(request, BrokerView(broker))
    return (
        yield from forward_rest(
            broker, request, call, settled, IncrementalAlterConfigsResponse, AlterConfigsResourceResponse
        )
    )
