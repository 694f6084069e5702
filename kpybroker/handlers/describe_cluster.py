"""DescribeCluster (60), versions 0-2: the brokers and the cluster's id (KIP-700).

- v1: which kind of endpoints (KIP-919): a broker answers for brokers only. v2: fenced brokers too, when asked for.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.metadata import CLUSTER_OPERATIONS, NOT_ASKED
from kpywire import error_codes
from kpywire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(broker: Context, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """Answer from the committed metadata, with the addresses of the listener that was asked."""
    image = broker.image
    if call.api_version >= 1 and request.endpoint_type != BROKERS:
        return _refused(request.endpoint_type)
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        endpoint_type=BROKERS,
        cluster_id=image.cluster_id,
        controller_id=broker.random_alive_broker(),
        brokers=[
            DescribeClusterBroker(
                broker_id=node.id, host=point.host, port=point.port, rack=node.rack, is_fenced=node.fenced
            )
            for node in image.brokers.values()
            if (point := node.listeners.get(call.listener_name)) is not None
            and (not node.fenced or request.include_fenced_brokers)
        ],
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _refused(endpoint_type: int) -> DescribeClusterResponse:
    code = error_codes.UNSUPPORTED_ENDPOINT_TYPE
    message = f"Unsupported endpoint type {endpoint_type}"
    if endpoint_type == CONTROLLERS:
        code = error_codes.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    return DescribeClusterResponse(
        throttle_time_ms=0, error_code=code, error_message=message, cluster_id="", brokers=[]
    )
