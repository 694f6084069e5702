"""DescribeCluster: API key 60."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """Version 1 adds EndpointType for KIP-919 support.
    Version 2 adds IncludeFencedBrokers for KIP-1073 support.
    """

    include_cluster_authorized_operations: bool  # Whether to include cluster authorized operations.
    endpoint_type: i8 = field("1+", default=1)  # The endpoint type to describe. 1=brokers, 2=controllers.
    include_fenced_brokers: bool = field("2+", default=False)  # Whether to include fenced brokers when listing brokers.


@struct
class DescribeClusterBroker:
    broker_id: i32  # The broker ID.
    host: string  # The broker hostname.
    port: i32  # The broker port.
    rack: string | None = field(default=None)  # The rack of the broker, or null if it has not been assigned to a rack.
    is_fenced: bool = field("2+", default=False)  # Whether the broker is fenced


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """Version 1 adds the EndpointType field, and makes MISMATCHED_ENDPOINT_TYPE and UNSUPPORTED_ENDPOINT_TYPE valid
    top-level response error codes.
    Version 2 adds IsFenced field to Brokers for KIP-1073 support.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top-level error code, or 0 if there was no error.
    error_message: string | None = field(default=None)  # The top-level error message, or null if there was no error.
    endpoint_type: i8 = field("1+", default=1)  # The endpoint type that was described. 1=brokers, 2=controllers.
    cluster_id: string  # The cluster ID that responding broker belongs to.
    # The ID of the controller. When handled by a controller, returns the current voter leader ID. When handled by a
    # broker, returns a random alive broker ID as a fallback.
    controller_id: i32 = field(default=-1)
    brokers: list[DescribeClusterBroker]  # Each broker in the response.
    # 32-bit bitfield to represent authorized operations for this cluster.
    cluster_authorized_operations: i32 = field(default=-0x8000_0000)
