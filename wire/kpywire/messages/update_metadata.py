"""UpdateMetadata: API key 6."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, i64, message, string, struct, uuid
from kpywire.uuid import ZERO_UUID


@struct
class UpdateMetadataPartitionState:
    topic_name: string = field("0-4", default="", ignorable=True)  # In older versions of this RPC, the topic name.
    partition_index: i32  # The partition index.
    controller_epoch: i32  # The controller epoch.
    leader: i32  # The ID of the broker which is the current partition leader.
    leader_epoch: i32  # The leader epoch of this partition.
    isr: list[i32]  # The brokers which are in the ISR for this partition.
    zk_version: i32  # The Zookeeper version.
    replicas: list[i32]  # All the replicas of this partition.
    # The replicas of this partition which are offline.
    offline_replicas: list[i32] = field("4+", default=[], ignorable=True)


@struct
class UpdateMetadataTopicState:
    topic_name: string  # The topic name.
    topic_id: uuid = field("7+", default=ZERO_UUID, ignorable=True)  # The topic id.
    partition_states: list[UpdateMetadataPartitionState]  # The partition that we would like to update.


@struct
class UpdateMetadataEndpoint:
    port: i32  # The port of this endpoint
    host: string  # The hostname of this endpoint
    listener: string = field("3+", default="", ignorable=True)  # The listener name.
    security_protocol: i16  # The security protocol type.


@struct
class UpdateMetadataBroker:
    id: i32  # The broker id.
    # The broker hostname.
    # Version 0 of the protocol only allowed specifying a single host and port per broker, rather than an array of
    # endpoints.
    v0_host: string = field("0", default="", ignorable=True)
    v0_port: i32 = field("0", default=0, ignorable=True)  # The broker port.
    endpoints: list[UpdateMetadataEndpoint] = field("1+", default=[], ignorable=True)  # The broker endpoints.
    rack: string | None = field("2+", default="", ignorable=True)  # The rack which this broker belongs to.


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest:
    """Version 1 allows specifying multiple endpoints for each broker.
    Version 2 adds the rack.
    Version 3 adds the listener name.
    Version 4 adds the offline replica list.
    Version 5 adds the broker epoch field and normalizes partitions by topic.
    Version 7 adds topicId
    Version 8 adds KRaft Controller ID field as part of KIP-866
    """

    controller_id: i32  # The controller id.
    # If KRaft controller id is used during migration. See KIP-866
    is_kraft_controller: bool = field("8+", default=False)
    # Indicates if this request is a Full metadata snapshot (2), Incremental (1), or Unknown (0). Using during ZK
    # migration, see KIP-866
    type: i8 = field("8+", tag=0, default=0)
    controller_epoch: i32  # The controller epoch.
    broker_epoch: i64 = field("5+", default=-1, ignorable=True)  # The broker epoch.
    # In older versions of this RPC, each partition that we would like to update.
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field("0-4", default=[])
    # In newer versions of this RPC, each topic that we would like to update.
    topic_states: list[UpdateMetadataTopicState] = field("5+", default=[])
    live_brokers: list[UpdateMetadataBroker]


@message(key=6, versions="0-8", flexible="6+")
class UpdateMetadataResponse:
    error_code: i16  # The error code, or 0 if there was no error.
