"""ListConfigResources (74), versions 0-1: the names of the resources that have configs (KIP-714, KIP-1142).

- v0 lists client metrics subscriptions. v1 lists the requested types, or all if none is requested: topics, brokers and
  their loggers, and those groups and subscriptions for which a config is set. Any other type is UNSUPPORTED_VERSION.
"""

from collections.abc import Callable, Iterable

from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

BROKER_LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32


def handle(broker: Context, request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    """Answer from the committed metadata."""
    wanted = {CLIENT_METRICS} if call.api_version == 0 else set(request.resource_types) or _NAMES.keys()
    if not wanted <= _NAMES.keys():
        return ListConfigResourcesResponse(
            throttle_time_ms=0, error_code=error_codes.UNSUPPORTED_VERSION, config_resources=[]
        )
    return ListConfigResourcesResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, names in _NAMES.items()
            if kind in wanted
            for name in names(broker, call)
        ],
    )


def _topics(broker: Context, _call: Call) -> Iterable[str]:
    return broker.image.topics


def _brokers(broker: Context, call: Call) -> Iterable[str]:
    return [
        str(node.id)
        for node in broker.image.brokers.values()
        if not node.fenced and call.listener_name in node.listeners
    ]


def _groups(broker: Context, _call: Call) -> Iterable[str]:
    return [name for kind, name in broker.image.configs if kind == GROUP]


def _subscriptions(broker: Context, _call: Call) -> Iterable[str]:
    return [name for kind, name in broker.image.configs if kind == CLIENT_METRICS]


_NAMES: dict[int, Callable[[Context, Call], Iterable[str]]] = {
    GROUP: _groups,
    CLIENT_METRICS: _subscriptions,
    BROKER_LOGGER: _brokers,
    BROKER_RESOURCE: _brokers,
    TOPIC_RESOURCE: _topics,
}
