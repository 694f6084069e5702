"""StreamsGroupMemberMetadata: a record of type 19, key and value."""

from __future__ import annotations

from kpywire.schema import field, i32, message, string, struct, u16


@message(key=19, versions="0")
class StreamsGroupMemberMetadataKey:
    group_id: string  # The group ID.
    member_id: string  # The member ID.


@struct
class Endpoint:
    host: string  # The host of the endpoint.
    port: u16  # The port of the endpoint.


@struct
class KeyValue:
    key: string  # The key of the config.
    value: string  # the value of the config.


@message(key=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    instance_id: string | None  # The (optional) instance ID for static membership.
    rack_id: string | None  # The (optional) rack ID.
    client_id: string  # The client ID.
    client_host: string  # The client host.
    rebalance_timeout_ms: i32 = field(default=-1)  # The rebalance timeout.
    topology_epoch: i32  # The epoch of the topology.
    process_id: string  # Identity of the streams instance that may have multiple consumers.
    # User-defined endpoint for running interactive queries on this instance.
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue]  # Used for rack-aware assignment algorithm.
