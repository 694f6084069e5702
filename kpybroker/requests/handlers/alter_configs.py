"""AlterConfigs (33), versions 0-2: replaces all configs of a resource.

- Superseded by IncrementalAlterConfigs, but still sent by older clients and tools. It sets no loggers.
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
from kpywire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse


def handle(broker: Context, request: AlterConfigsRequest, call: Call) -> Work:
    """Refuse what is invalid here; forward the rest to the controller
    (:mod:`kpybroker.machines.controller.configs`)."""
    if is_asked_as_controller(broker, call):
        settled = yield from alter.settle_on_controller(request, BrokerView(broker))
    else:
        is_allowed = may_on_cluster(broker, call, AclOperation.ALTER_CONFIGS, logs_denial=False)
        settled = yield from alter.settle_legacy(request, BrokerView(broker), is_allowed=is_allowed)
    return (yield from forward_rest(broker, request, call, settled, AlterConfigsResponse, AlterConfigsResourceResponse))
