"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to and subtract from configs (KIP-339).

- Resources are topics, brokers (an empty name is the cluster-wide default), client metrics and groups.
- Loggers of this node (KIP-412) are set at once and not stored.
- The broker refuses malformed changes and values that it could not run with itself; the controller decides the rest.
- A sender without ALTER_CONFIGS on the cluster learns nothing about the files and the present configs of a broker.
"""

from kpybroker.config import alter
from kpybroker.config.view import BrokerView
from kpybroker.machines.authorization.resources import AclOperation
from kpybroker.requests.serving.config_changes import forward_rest
from kpybroker.requests.serving.context import Context, is_asked_as_controller
from kpybroker.requests.serving.permissions import may_on_cluster
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work
from kpywire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(broker: Context, request: IncrementalAlterConfigsRequest, call: Call) -> Work:
    """Refuse what is invalid here; forward the rest to the controller
    (:mod:`kpybroker.machines.controller.configs`)."""
    if is_asked_as_controller(broker, call):
        settled = yield from alter.settle_on_controller(request, BrokerView(broker))
    else:
        is_allowed = may_on_cluster(broker, call, AclOperation.ALTER_CONFIGS, logs_denial=False)
        settled = yield from alter.settle_incremental(request, BrokerView(broker), is_allowed=is_allowed)
    return (
        yield from forward_rest(
            broker, request, call, settled, IncrementalAlterConfigsResponse, AlterConfigsResourceResponse
        )
    )
