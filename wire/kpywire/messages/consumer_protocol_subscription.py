"""ConsumerProtocolSubscription."""

from __future__ import annotations

from kpywire.schema import field, i32, message, string, struct


@struct
class TopicPartition:
    topic: string  # The topic name.
    partitions: list[i32]  # The partition ids.


@message(versions="0-3")
class ConsumerProtocolSubscription:
    """Subscription part of the Consumer Protocol.
    The current implementation assumes that future versions will not break compatibility. When it encounters a
    newer version, it parses it using the current format. This basically means that new versions cannot remove or
    reorder any of the existing fields.
    Version 1 added the "OwnedPartitions" field to allow assigner know what partitions each member owned
    Version 2 added a new field "GenerationId" to indicate if the member has out-of-date ownedPartitions.
    Version 3 adds rack id to enable rack-aware assignment.
    """

    topics: list[string]  # The topics that the member wants to consume.
    user_data: bytes | None = field(default=None)  # User data that will be passed back to the consumer.
    # The partitions that the member owns.
    owned_partitions: list[TopicPartition] = field("1+", default=[], ignorable=True)
    generation_id: i32 = field("2+", default=-1, ignorable=True)  # The generation id of the member.
    rack_id: string | None = field("3+", default=None, ignorable=True)  # The rack id of the member.
