"""RegisterControllerRecord: type 27 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i16, i32, message, string, struct, u16, uuid


@struct
class ControllerEndpoint:
    name: string  # The name of the endpoint.
    host: string  # The hostname.
    port: u16  # The port.
    security_protocol: i16  # The security protocol.


@struct
class ControllerFeature:
    name: string  # The feature name.
    min_supported_version: i16  # The minimum supported feature level.
    max_supported_version: i16  # The maximum supported feature level.


@message(key=27, versions="0", flexible="0+")
class RegisterControllerRecord:
    controller_id: i32  # The controller id.
    incarnation_id: uuid  # The incarnation ID of the controller process
    zk_migration_ready: bool  # Set if the required configurations for ZK migration are present.
    end_points: list[ControllerEndpoint]  # The endpoints that can be used to communicate with this controller.
    features: list[ControllerFeature]  # The features on this controller
