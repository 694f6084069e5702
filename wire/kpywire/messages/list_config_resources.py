"""ListConfigResources: API key 74."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """Version 0 is used as ListClientMetricsResourcesRequest which only lists client metrics resources.
    Version 1 adds ResourceTypes field (KIP-1142). If there is no specified ResourceTypes, it should return all
    configuration resources.
    """

    # The list of resource type. If the list is empty, it uses default supported config resource types.
    resource_types: list[i8] = field("1+", default=[])


@struct
class ConfigResource:
    resource_name: string  # The resource name.
    resource_type: i8 = field("1+", default=16, ignorable=True)  # The resource type.


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """Version 0 is used as ListClientMetricsResourcesResponse which returns all client metrics resources.
    Version 1 adds ResourceType to ConfigResources (KIP-1142).
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    config_resources: list[ConfigResource]  # Each config resource in the response.
