"""IncrementalAlterConfigs: API key 44."""

from __future__ import annotations

from kpywire.schema import i8, i16, i32, message, string, struct


@struct
class AlterableConfig:
    name: string  # The configuration key name.
    config_operation: i8  # The type (Set, Delete, Append, Subtract) of operation.
    value: string | None  # The value to set for the configuration key.


@struct
class AlterConfigsResource:
    resource_type: i8  # The resource type.
    resource_name: string  # The resource name.
    configs: list[AlterableConfig]  # The configurations.


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Version 1 is the first flexible version."""

    resources: list[AlterConfigsResource]  # The incremental updates for each resource.
    validate_only: bool  # True if we should validate the request, but not change the configurations.


@struct
class AlterConfigsResourceResponse:
    error_code: i16  # The resource error code.
    error_message: string | None  # The resource error message, or null if there was no error.
    resource_type: i8  # The resource type.
    resource_name: string  # The resource name.


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """Version 1 is the first flexible version."""

    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    responses: list[AlterConfigsResourceResponse]  # The responses for each resource.
