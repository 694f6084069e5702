"""RegisterBrokerRecord: type 0 in the metadata log."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct, u16, uuid


@struct
class BrokerEndpoint:
    name: string  # The name of the endpoint.
    host: string  # The hostname.
    port: u16  # The port.
    security_protocol: i16  # The security protocol.


@struct
class BrokerFeature:
    name: string  # The feature name.
    min_supported_version: i16  # The minimum supported feature level.
    max_supported_version: i16  # The maximum supported feature level.


@message(key=0, versions="0-4", flexible="0+")
class RegisterBrokerRecord:
    broker_id: i32  # The broker id.
    # True if the broker is a ZK broker in migration mode. Otherwise, false
    is_migrating_zk_broker: bool = field("2+", default=False)
    incarnation_id: uuid  # The incarnation ID of the broker process
    broker_epoch: i64  # The broker epoch assigned by the controller.
    end_points: list[BrokerEndpoint]  # The endpoints that can be used to communicate with this broker.
    features: list[BrokerFeature]  # The features on this broker
    rack: string | None  # The broker rack.
    fenced: bool = field(default=True)  # True if the broker is fenced.
    in_controlled_shutdown: bool = field("1+", default=False)  # True if the broker is in controlled shutdown.
    # Log directories configured in this broker which are available.
    log_dirs: list[uuid] = field("3+", tag=0, default=[])
    # Log directories that are cordoned. This is initially null before the broker starts sending the value via its
    # heartbeats.
    cordoned_log_dirs: list[uuid] | None = field("4+", tag=1, default=None)
