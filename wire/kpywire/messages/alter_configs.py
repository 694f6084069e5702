"""AlterConfigs: API key 33."""

from __future__ import annotations

from kpywire.schema import i8, i16, i32, message, string, struct


@struct
class AlterableConfig:
    name: string  # The configuration key name.
    value: string | None  # The value to set for the configuration key.


@struct
class AlterConfigsResource:
    resource_type: i8  # The resource type.
    resource_name: string  # The resource name.
    configs: list[AlterableConfig]  # The configurations.


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Version 2 enables flexible versions."""

    resources: list[AlterConfigsResource]  # The updates for each resource.
    validate_only: bool  # True if we should validate the request, but not change the configurations.


@struct
class AlterConfigsResourceResponse:
    error_code: i16  # The resource error code.
    error_message: string | None  # The resource error message, or null if there was no error.
    resource_type: i8  # The resource type.
    resource_name: string  # The resource name.


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """Starting in version 1, on quota violation brokers send out responses before throttling.
    Version 2 enables flexible versions.
    """

    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    responses: list[AlterConfigsResourceResponse]  # The responses for each resource.
