"""ConsumerGroupMemberMetadata: a record of type 5, key and value."""

from __future__ import annotations

from kpywire.schema import field, i32, message, string, struct


@message(key=5, versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: string  # The group id.
    member_id: string  # The member id.


@struct
class ClassicProtocol:
    name: string  # The protocol name.
    metadata: bytes  # The protocol metadata.


@struct
class ClassicMemberMetadata:
    session_timeout_ms: i32  # The session timeout if the consumer uses the classic protocol.
    # The list of protocols that the member supports if the consumer uses the classic protocol.
    supported_protocols: list[ClassicProtocol]


@message(key=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: string | None  # The (optional) instance id.
    rack_id: string | None  # The (optional) rack id.
    client_id: string  # The client id.
    client_host: string  # The client host.
    subscribed_topic_names: list[string]  # The list of subscribed topic names.
    subscribed_topic_regex: string | None  # The subscribed topic regular expression.
    rebalance_timeout_ms: i32 = field(default=-1)  # The rebalance timeout.
    server_assignor: string | None  # The server assignor to use; or null if not used.
    # The classic member metadata which includes the supported protocols of the consumer if it uses the classic
    # protocol. The metadata is null if the consumer uses the consumer protocol.
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0, default=ClassicMemberMetadata)
