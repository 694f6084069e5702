"""ControllerRegistration: API key 70."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string, struct, u16, uuid


@struct
class Listener:
    name: string  # The name of the endpoint.
    host: string  # The hostname.
    port: u16  # The port.
    security_protocol: i16  # The security protocol.


@struct
class Feature:
    name: string  # The feature name.
    min_supported_version: i16  # The minimum supported feature level.
    max_supported_version: i16  # The maximum supported feature level.


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest:
    controller_id: i32  # The ID of the controller to register.
    incarnation_id: uuid  # The controller incarnation ID, which is unique to each process run.
    zk_migration_ready: bool  # Set if the required configurations for ZK migration are present.
    listeners: list[Listener]  # The listeners of this controller.
    features: list[Feature]  # The features on this controller.


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse:
    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The response error code.
    error_message: string | None  # The response error message, or null if there was no error.
