"""BrokerRegistration: API key 62."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, u16, uuid


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


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
    broker_id: i32  # The broker ID.
    cluster_id: string  # The cluster id of the broker process.
    incarnation_id: uuid  # The incarnation id of the broker process.
    listeners: list[Listener]  # The listeners of this broker.
    # The features on this broker. Note: in v0-v3, features with MinSupportedVersion = 0 are omitted.
    features: list[Feature]
    rack: string | None  # The rack which this broker is in.
    # If the required configurations for ZK migration are present, this value is set to true.
    is_migrating_zk_broker: bool = field("1+", default=False)
    # Log directories configured in this broker which are available.
    log_dirs: list[uuid] = field("2+", default=[], ignorable=True)
    previous_broker_epoch: i64 = field("3+", default=-1, ignorable=True)  # The epoch before a clean shutdown.


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    # Duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request did
    # not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The error code, or 0 if there was no error.
    broker_epoch: i64 = field(default=-1)  # The broker's assigned epoch, or -1 if none was assigned.
