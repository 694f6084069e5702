"""DescribeCluster (60), versions 0-2: the brokers or the controllers, and the cluster's id (KIP-700).

- v1: the kind of endpoints (KIP-919). A broker's listener answers only for brokers, a controller's for controllers.
- v2: fenced brokers too, if asked for.
"""

from kpybroker.requests.handlers.metadata import NOT_ASKED
from kpybroker.requests.serving.context import Context, is_asked_as_controller
from kpybroker.requests.serving.permissions import cluster_operations
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2
_NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle(broker: Context, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """Answer from the committed metadata, with the addresses of the listener by which the request came."""
    image = broker.image
    endpoint_type = CONTROLLERS if is_asked_as_controller(broker, call) else BROKERS
    if request.endpoint_type != endpoint_type:
        return _refused(request.endpoint_type, endpoint_type, call.api_version)
    if endpoint_type == CONTROLLERS:
        controller_id, nodes = broker.controller.controller_id, _controllers(broker, call)
    else:
        controller_id, nodes = broker.random_alive_broker(), _brokers(broker, request, call)
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        endpoint_type=endpoint_type,
        cluster_id=image.cluster_id,
        controller_id=controller_id,
        brokers=nodes,
        cluster_authorized_operations=cluster_operations(broker, call)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _brokers(broker: Context, request: DescribeClusterRequest, call: Call) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(
            broker_id=node.id, host=point.host, port=point.port, rack=node.rack, is_fenced=node.fenced
        )
        for node in broker.image.brokers.values()
        if (point := node.listeners.get(call.listener_name)) is not None
        and (not node.fenced or request.include_fenced_brokers)
    ]


def _controllers(broker: Context, call: Call) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(broker_id=node.id, host=point.host, port=point.port, rack=None)
        for node in broker.image.controllers.values()
        if (point := node.listeners.get(call.listener_name)) is not None
    ]


def _refused(asked: int, endpoint_type: int, api_version: int) -> DescribeClusterResponse:
    code = error_codes.UNSUPPORTED_ENDPOINT_TYPE
    message = f"Unsupported endpoint type {asked}"
    if asked in _NAMES:
        code = error_codes.INVALID_REQUEST if api_version == 0 else error_codes.MISMATCHED_ENDPOINT_TYPE
        message = (
            f"The request was sent to an endpoint of type {_NAMES[endpoint_type]}, but we wanted an endpoint of type "
            f"{_NAMES[asked]}"
        )
    return DescribeClusterResponse(
        throttle_time_ms=0, error_code=code, error_message=message, cluster_id="", brokers=[]
    )
